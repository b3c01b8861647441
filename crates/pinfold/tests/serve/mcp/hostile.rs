//! A model that says anything, and a workspace that wants to be misread.

use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, people};
use serde_json::{Value, json};

use super::Mcp;

fn mcp(stage: &Stage) -> Mcp {
    Mcp::new(stage, &[])
}

#[test]
fn arguments_of_every_wrong_type_are_errors_without_effect() {
    let stage = Stage::new(people()[0]);
    stage.write("ws/a", "text");
    let mut mcp = mcp(&stage);
    let tools = mcp.ask("tools/list", json!({}))["result"]["tools"].clone();
    let wrong = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!([]),
        json!({}),
        json!([[["x"]]]),
        json!({ "base64": "!" }),
    ];
    for tool in tools.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        for arguments in &wrong {
            let params = json!({ "name": name, "arguments": arguments });
            // Those that need nothing take nothing, and are not called here.
            let needs = tool["inputSchema"]["required"].is_array();
            if (arguments.is_object() || arguments.is_null()) && !needs {
                continue;
            }
            let answer = mcp.ask("tools/call", params);
            assert_eq!(answer["error"]["code"], -32602, "{name} {arguments}: {answer}");
        }
        for (property, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            for value in wrong.iter().filter(|value| !fits(schema, value)) {
                let answer = mcp
                    .ask("tools/call", json!({ "name": name, "arguments": { (property): value } }));
                let code = &answer["error"]["code"];
                assert_eq!(code, -32602, "{name} {property} {value}: {answer}");
            }
        }
    }
    assert_eq!(mcp.call("read", json!({ "path": "a" })), (false, "text".to_owned()));
    mcp.end();
}

/// What is understood although it is not asked for: nothing, and bytes.
fn fits(schema: &Value, value: &Value) -> bool {
    let is_lax = value.is_null() || value.is_object();
    match schema["type"].as_str() {
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        _ => is_lax,
    }
}

#[test]
fn numbers_without_measure_are_taken_as_they_are() {
    let stage = Stage::new(people()[0]);
    stage.write("ws/a", "one\ntwo\nthree\n");
    let mut mcp = mcp(&stage);
    let most = u64::MAX;
    let mut calm = |tool: &str, arguments: Value| {
        let (is_error, said) = mcp.call(tool, arguments.clone());
        assert!(!is_error, "{tool} {arguments}: {said}");
        said
    };
    assert_eq!(
        calm("read", json!({ "path": "a", "offset": 0, "limit": most })),
        "one\ntwo\nthree\n"
    );
    for offset in [4, most] {
        let said = calm("read", json!({ "path": "a", "offset": offset, "limit": most }));
        assert_eq!(said, "[3 lines in all]");
    }
    calm("read", json!({ "path": "a", "limit": 0 }));
    calm("ls", json!({ "limit": most }));
    calm("find", json!({ "pattern": "*", "limit": most }));
    for length in [0, u32::MAX] {
        let around = json!({ "pattern": "two", "before": u32::MAX, "after": u32::MAX,
            "limit": most, "lineLength": length });
        assert_eq!(calm("grep", around).lines().count(), 3);
    }
    assert_eq!(calm("bash", json!({ "command": "echo here", "timeout": most })), "here\n");
    mcp.end();
}

#[test]
fn a_name_is_one_line_and_content_without_measure_is_cut() {
    let stage = Stage::new(people()[0]);
    let mut mcp = mcp(&stage);
    for name in ["a\nb", "\u{1b}[2Jc", "\u{202e}d"] {
        stage.write(&format!("ws/names/{name}"), "needle\n");
    }
    for (tool, arguments) in [
        ("ls", json!({ "path": "names" })),
        ("find", json!({ "pattern": "*", "path": "names" })),
        ("grep", json!({ "pattern": "needle" })),
    ] {
        let (_, said) = mcp.call(tool, arguments);
        assert_eq!(said.lines().count(), 3, "{tool}: {said:?}");
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{tool}: {said:?}");
    }
    stage.write("ws/long", "x".repeat(2 << 20));
    stage.write("ws/many", "needle in a line\n".repeat(100_000));
    for (tool, arguments) in [
        ("read", json!({ "path": "long" })),
        ("read", json!({ "path": "many", "limit": u64::MAX })),
        ("grep", json!({ "pattern": "needle", "limit": u64::MAX })),
        ("bash", json!({ "command": "yes | head -c 100000000" })),
        ("bash", json!({ "command": format!(": {}", "y".repeat(10 << 20)) })),
        ("write", json!({ "path": "w", "content": "z".repeat(70 << 20) })),
    ] {
        let (_, said) = mcp.call(tool, arguments);
        assert!(!said.is_empty() && said.len() < 300_000, "{tool}: {}", said.len());
    }
    let (is_error, said) = mcp.call("bash", json!({ "command": "a\u{0}b" }));
    assert!(is_error, "{said}");
    let (is_error, said) = mcp.call("read", json!({ "path": "a\u{0}b" }));
    assert!(is_error && said.contains("not a path"), "{said}");
    assert!(!mcp.call("bash", json!({ "command": "true" })).0);
    mcp.end();
}

#[test]
fn calls_by_the_thousand_and_ids_out_of_order_are_each_answered_once() {
    let stage = Stage::new(people()[0]);
    stage.write("ws/a", "text");
    let mut mcp = mcp(&stage);
    // Before it has been said hello to, and about what never was.
    let cancelled = |id: Value| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    for id in [json!(99), json!(null), json!({}), json!("x")] {
        mcp.say(&cancelled(id));
    }
    mcp.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }));
    mcp.say(&json!({ "jsonrpc": "2.0", "id": 5, "result": {} }));
    assert_eq!(mcp.call("read", json!({ "path": "a" })).1, "text");
    // One id for two: the second is refused, and the first goes on and can be taken back.
    let call = |id: Value, command: &str| {
        let params = json!({ "name": "bash", "arguments": { "command": command } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    mcp.say(&call(json!("twice"), "sleep 1000"));
    mcp.say(&call(json!("twice"), "touch second"));
    let refused = mcp.hear();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("twice"), &json!(-32600)));
    mcp.say(&cancelled(json!("twice")));
    let began = Instant::now();
    while !mcp.call("bash", json!({ "command": "pgrep -x sleep" })).0 {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    assert!(!stage.path("ws/second").exists());
    // Some at once, and more than that.
    const CALLS: u64 = 2_000;
    let mut lines = String::new();
    for id in 0..CALLS {
        let params = json!({ "name": "read", "arguments": { "path": "a" } });
        let call = json!({ "jsonrpc": "2.0", "id": 10_000 + id, "method": "tools/call", "params": params });
        lines.push_str(&format!("{call}\n"));
    }
    let mut seen = std::collections::BTreeSet::new();
    std::thread::scope(|scope| {
        let to = &mut mcp.to;
        scope.spawn(move || to.write_all(lines.as_bytes()).unwrap());
        for _ in 0..CALLS {
            let mut line = String::new();
            std::io::BufRead::read_line(&mut mcp.from, &mut line).unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            let is_read = answer["result"]["content"][0]["text"] == "text";
            let is_refused = answer["error"]["message"] == "too many calls at once";
            assert!(is_read || is_refused, "{answer}");
            assert!(seen.insert(answer["id"].as_u64().unwrap()), "twice: {answer}");
        }
    });
    assert_eq!(mcp.call("read", json!({ "path": "a" })).1, "text");
    mcp.end();
    assert_eq!(fs::read_dir(stage.state().join("private")).unwrap().count(), 0);
}
