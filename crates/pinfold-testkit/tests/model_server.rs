//! What tests of real agents rely on.
#![expect(clippy::unwrap_used, reason = "a failing helper is a failing test")]

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Talk, call};
use pinfold_testkit::{ModelServer, Script, TempRepo, find_bytes_in_tree};

const KEY: &str = "sk-test-placeholder";

fn script(json: &str) -> Script {
    Script::parse(json.as_bytes()).unwrap()
}

#[test]
fn the_fixture_is_played_in_every_api() {
    for mut talk in Talk::all() {
        let server = ModelServer::start(Script::fix_the_bug()).unwrap();
        let repo = TempRepo::with_bug();
        assert!(!repo.run("sh", &["test.sh"]).status.success());
        let mut result = String::new();
        let mut done = false;
        for _ in 0..4 {
            let answer = call(server.address(), "POST", talk.path, &[], &talk.body(false));
            assert_eq!(answer.status, 200, "{}", answer.body);
            let mut calls = talk.go_on(&answer.json(), &result);
            if let Some((tool, input)) = calls.pop() {
                result = act(&repo, &tool, &input);
                // The result that was just put in is replaced by the real one.
                talk.replace_last_result(&result);
            } else {
                done = answer.body.contains("DONE: the tests pass.");
            }
        }
        assert!(done, "{}: {result}", talk.path);
        assert!(repo.run("sh", &["test.sh"]).status.success());
        assert_eq!(repo.git(&["diff", "--name-only"]), "sum.sh\n");
        let steps: Vec<_> = server.requests().iter().map(|r| r.step).collect();
        assert_eq!(steps, [Some(0), Some(1), Some(2), Some(3)]);
    }
}

/// An agent in a few lines.
fn act(repo: &TempRepo, tool: &str, input: &serde_json::Value) -> String {
    let text = |key: &str| input[key].as_str().unwrap();
    match tool {
        "read" => repo.read(text("path")),
        "edit" => {
            let content = repo.read(text("path"));
            assert!(content.contains(text("oldText")));
            repo.write(text("path"), &content.replace(text("oldText"), text("newText")));
            "edited".to_owned()
        }
        "bash" => {
            let output = repo.run("sh", &["-c", text("command")]);
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        }
        other => panic!("unexpected tool {other}"),
    }
}

#[test]
fn credentials_are_recorded_exactly_as_received() {
    let server = ModelServer::start(Script::default()).unwrap();
    let headers = [("Authorization", "Bearer  a b"), ("X-Api-Key", KEY), ("Cookie", "c=d")];
    call(server.address(), "GET", "/v1/models?key=in-query&x=y", &headers, "");
    let requests = server.wait_for_requests(1, Duration::from_secs(5));
    let request = &requests[0];
    assert_eq!(request.credential("authorization"), Some("Bearer  a b"));
    assert_eq!(request.credential("x-api-key"), Some(KEY));
    assert_eq!(request.credential("cookie"), Some("c=d"));
    assert_eq!(request.credential("?key"), Some("in-query"));
    assert_eq!(request.keys(), ["a b", KEY, "c=d", "in-query"]);
    assert!(request.header("host").unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn a_wrong_key_is_refused_in_every_way_to_send_one() {
    let server = ModelServer::require_key(Script::default(), KEY).unwrap();
    let status =
        |headers: &[(&str, &str)]| call(server.address(), "GET", "/v1/models", headers, "").status;
    assert_eq!(status(&[]), 401);
    assert_eq!(status(&[("x-api-key", "other")]), 401);
    assert_eq!(status(&[("authorization", &format!("Bearer {KEY}x"))]), 401);
    assert_eq!(status(&[("authorization", &format!("bearer {KEY}"))]), 200);
    assert_eq!(status(&[("x-api-key", KEY)]), 200);
}

#[test]
fn faults_happen_as_often_as_scripted() {
    let server = ModelServer::start(script(
        r#"{"steps":[{"text":"a longer text, cut in pieces","error":{"times":2},"cut_after":3}]}"#,
    ))
    .unwrap();
    let [talk, ..] = Talk::all();
    let ask = |stream| call(server.address(), "POST", talk.path, &[], &talk.body(stream));
    assert_eq!(ask(true).status, 529);
    assert_eq!(ask(true).status, 529);
    let cut = ask(true);
    assert!(!cut.whole && cut.events().len() == 3, "{}", cut.body);
    let whole = ask(true);
    assert!(whole.whole && whole.events().len() > 3, "{}", whole.body);
}

#[test]
fn requests_outside_the_conversation_and_after_its_end_are_answered() {
    let server = ModelServer::start(script(r#"{"steps":[],"side_text":"A title"}"#)).unwrap();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"title?"}]}"#;
    assert!(call(server.address(), "POST", "/messages", &[], body).body.contains("A title"));
    let [talk, ..] = Talk::all();
    let answer = call(server.address(), "POST", talk.path, &[], &talk.body(false));
    assert!(answer.body.contains("MOCK: script exhausted"));
    assert_eq!(call(server.address(), "POST", "/v1/elsewhere", &[], "").status, 404);
    assert_eq!(call(server.address(), "POST", "/v1/messages", &[], "no json").status, 400);
    let headers = [("Upgrade", "websocket"), ("Connection", "Upgrade")];
    assert_eq!(call(server.address(), "GET", "/v1/responses", &headers, "").status, 404);
}

#[test]
fn an_unmet_expectation_is_visible_to_the_client() {
    let json = r#"{"steps":[{"bash":"x"},{"text":"fine","expect":"a.c"}]}"#;
    for (result, said) in [("a\nc", "fine"), ("abd", "MOCK-EXPECT-FAILED step 1: /a.c/")] {
        let server = ModelServer::start(script(json)).unwrap();
        let [mut talk, ..] = Talk::all();
        let first = call(server.address(), "POST", talk.path, &[], &talk.body(false));
        talk.go_on(&first.json(), result);
        let second = call(server.address(), "POST", talk.path, &[], &talk.body(false));
        assert!(second.body.contains(said), "{}", second.body);
        assert_eq!(server.requests()[1].expect, Some(said == "fine"));
    }
}

#[test]
fn the_program_announces_itself_and_logs() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    #[expect(clippy::disallowed_methods, reason = "the program under test")]
    let mut child = Command::new(env!("CARGO_BIN_EXE_pinfold-model-server"))
        .args(["--port", "0", "--require-key", KEY, "--log"])
        .arg(&log)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("READY http://").unwrap().parse().unwrap();
    assert_eq!(call(address, "GET", "/v1/models", &[("x-api-key", KEY)], "").status, 200);
    child.kill().unwrap();
    child.wait().unwrap();
    let logged: serde_json::Value =
        serde_json::from_str(std::fs::read_to_string(&log).unwrap().trim()).unwrap();
    assert_eq!(logged["auth"]["x-api-key"], KEY);
    assert_eq!(find_bytes_in_tree(dir.path(), KEY.as_bytes()).unwrap(), [log]);
}

#[test]
fn bytes_are_found_over_a_seam_in_names_and_in_link_targets() {
    let dir = tempfile::tempdir().unwrap();
    let mut content = vec![b'.'; 256 * 1024 - 3];
    content.extend(b"needle");
    std::fs::create_dir(dir.path().join("d")).unwrap();
    std::fs::write(dir.path().join("d/seam"), content).unwrap();
    std::fs::write(dir.path().join("a-needle-b"), "").unwrap();
    std::os::unix::fs::symlink("/nowhere/needle", dir.path().join("link")).unwrap();
    std::fs::write(dir.path().join("other"), "needl e").unwrap();
    let mut found = find_bytes_in_tree(dir.path(), b"needle").unwrap();
    found.sort();
    let expected = ["a-needle-b", "d/seam", "link"].map(|name| dir.path().join(name));
    assert_eq!(found, expected);
}
