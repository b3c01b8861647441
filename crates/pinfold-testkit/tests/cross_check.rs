//! The same script and the same requests to this server and to the reference that it was made
//! after, if that lies next to the repository.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::{Talk, call};
use pinfold_testkit::{ModelServer, Script};
use serde_json::{Value, json};

const REFERENCE: &str = "../shared/tools/mock_llm.py";

const SCRIPT: &str = r#"{ "steps": [
    { "text": "Looking around, at some length, so that there are pieces.", "bash": "ls -la" },
    { "thinking": "hm", "calls": [ { "read": { "path": "a.txt" } }, { "bash": "echo 'x y'" } ] },
    { "write": { "path": "n.txt", "content": "one\ntwo\n" }, "expect": "result" },
    { "edit": { "path": "n.txt", "old": "one", "new": "ein\"s" } },
    { "tool": { "name": "bash", "input": { "command": "true" } },
      "usage": { "input": 7, "output": 3, "cache_read": 2, "cache_write": 1 } },
    { "text": "again: {{last_result}} / {{last_user}}", "expect": "no such thing" } ] }"#;

struct Reference {
    child: Child,
    address: SocketAddr,
}

impl Reference {
    fn start(dir: &Path) -> Option<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(REFERENCE);
        if !program.exists() {
            eprintln!("skipped: there is no {REFERENCE} next to the repository");
            return None;
        }
        let script = dir.join("script.json");
        std::fs::File::create(&script).unwrap().write_all(SCRIPT.as_bytes()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the reference is a program of its own")]
        let child = Command::new("python3")
            .arg(program)
            .args(["--port", "0", "--log", "/dev/null", "--script"])
            .arg(script)
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: there is no python3 for {REFERENCE}");
            return None;
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("READY http://").unwrap().parse().unwrap();
        Some(Self { child, address })
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// JSON inside text is compared as JSON: the two write it with other spaces and orders.
fn normal(value: &Value) -> Value {
    match value {
        Value::String(text) => match serde_json::from_str(text) {
            Ok(inner @ Value::Object(_)) => inner,
            _ => value.clone(),
        },
        Value::Array(values) => values.iter().map(normal).collect(),
        Value::Object(members) => {
            let keep = |key: &str| !matches!(key, "sequence_number" | "created" | "created_at");
            let members = members.iter().filter(|(key, _)| keep(key));
            members.map(|(key, value)| (key.clone(), normal(value))).collect()
        }
        other => other.clone(),
    }
}

/// Joins the pieces of one text: where it is cut depends on its spaces.
fn joined(events: &[Value]) -> Vec<Value> {
    let mut joined: Vec<Value> = Vec::new();
    for event in events {
        let pointers = ["/1/delta/partial_json", "/1/delta", "/1/choices/0/delta/content"];
        let chat = "/1/choices/0/delta/tool_calls/0/function/arguments";
        let texts = pointers.iter().chain([&chat]);
        let piece =
            texts.filter_map(|pointer| Some((*pointer, event.pointer(pointer)?.as_str()?))).next();
        let Some((pointer, piece)) = piece else {
            joined.push(event.clone());
            continue;
        };
        let same = |other: &Value| {
            let shape = |value: &Value| {
                let mut value = value.clone();
                *value.pointer_mut(pointer)? = Value::Null;
                value[1]["sequence_number"] = Value::Null;
                Some(value)
            };
            shape(other) == shape(event)
        };
        match joined.last_mut() {
            Some(last) if same(last) => {
                let text = last.pointer_mut(pointer).unwrap();
                *text = json!(format!("{}{piece}", text.as_str().unwrap()));
            }
            _ => joined.push(event.clone()),
        }
    }
    joined.iter().map(normal).collect()
}

#[test]
fn answers_are_like_the_references() {
    let dir = tempfile::tempdir().unwrap();
    let Some(reference) = Reference::start(dir.path()) else { return };
    let server = ModelServer::start(Script::parse(SCRIPT.as_bytes()).unwrap()).unwrap();
    let both = [server.address(), reference.address];
    for mut talk in Talk::all() {
        for step in 0..7 {
            let [ours, theirs] = both.map(|s| call(s, "POST", talk.path, &[], &talk.body(true)));
            let place = format!("{} step {step}", talk.path);
            if step == 5 {
                // The unmet expectation is quoted in two spellings.
                assert!(ours.body.contains("MOCK-EXPECT-FAILED"), "{place}");
                assert!(theirs.body.contains("MOCK-EXPECT-FAILED"), "{place}");
            } else {
                assert_eq!(joined(&ours.events()), joined(&theirs.events()), "{place}");
            }
            let [ours, theirs] = both.map(|s| call(s, "POST", talk.path, &[], &talk.body(false)));
            if step != 5 {
                assert_eq!(normal(&ours.json()), normal(&theirs.json()), "{place}");
            }
            talk.go_on(&ours.json(), "a result");
        }
    }
    for (method, path, headers, body) in [
        ("GET", "/v1/models", &[][..], ""),
        ("GET", "/models/x", &[("anthropic-version", "1")], ""),
        ("GET", "/v1/v1/models", &[("anthropic-version", "1")], ""),
        ("POST", "/v1/messages/count_tokens", &[], "{\"messages\":[]}"),
        ("POST", "/nothing", &[], "{}"),
        ("POST", "/v1/messages", &[], "{"),
        ("HEAD", "/", &[], ""),
        ("POST", "/v1/chat/completions", &[], r#"{"messages":[]}"#),
    ] {
        let [ours, theirs] = both.map(|server| call(server, method, path, headers, body));
        assert_eq!(ours.status, theirs.status, "{method} {path}");
        if method != "HEAD" {
            assert_eq!(normal(&ours.json()), normal(&theirs.json()), "{method} {path}");
        }
    }
}
