use serde_json::{Value, json};

use super::{Source, ocsf, otlp};

fn source() -> Source {
    Source { version: "1.2.3", host: "machine".to_owned() }
}

/// Records as the log has them.
fn records() -> Vec<Value> {
    let record = |mut record: Value| {
        record["time"] = "2026-01-02T03:04:05.678Z".into();
        record["session"] = "0123456789ab".into();
        record["chain"] = "00ff".into();
        record
    };
    [
        json!({ "event": "session", "workspace": "/work", "boundary": "namespace", "grants": [{ "root": "workspace" }] }),
        json!({ "event": "launch", "purpose": "command", "argv": ["sh", "-c", "true"], "cwd": "/work", "handled_by": ["namespace"] }),
        json!({ "event": "exit", "number": 2, "status": 1 }),
        json!({ "event": "connection", "to": "[2001:db8::1]:443", "rule": "*" }),
        json!({ "event": "denial", "door": "network", "what": "example.com:443", "reason": "no rule" }),
        json!({ "event": "decision", "access": "write", "path": "/work/.env", "outcome": "deny", "reason": "hidden" }),
        json!({ "event": "credential-use", "provider": "anthropic", "request": "POST /v1/messages", "host": "api.anthropic.com" }),
        json!({ "event": "usage", "model": "m", "input": 12, "usd": 0.5, "estimated": false }),
        json!({ "event": "fault", "what": "a thread ended" }),
        json!({ "event": "end", "status": 0, "limit": null }),
    ]
    .map(record)
    .into()
}

fn lines(values: &[Value]) -> String {
    values.iter().map(|value| format!("{value:#}\n")).collect()
}

#[test]
fn records_become_events_of_the_security_schema() {
    let events: Vec<Value> = records().iter().map(|record| ocsf(record, &source())).collect();
    for event in &events {
        let uid = |key: &str| event[key].as_u64().unwrap();
        assert_eq!(uid("type_uid"), uid("class_uid") * 100 + uid("activity_id"));
        assert_eq!(uid("time"), 1_767_323_045_678);
        assert_eq!(event["metadata"]["version"], "1.3.0");
        let required: &[&str] = match uid("class_uid") {
            1001 => &["actor", "device", "file"],
            1007 => &["actor", "device", "process"],
            4001 => &["dst_endpoint", "src_endpoint"],
            6002 => &["app"],
            6003 => &["actor", "api", "src_endpoint"],
            _ => &["message"],
        };
        assert!(required.iter().all(|key| !event[*key].is_null()), "{event}");
    }
    insta::assert_snapshot!(lines(&events));
}

#[test]
fn records_become_requests_of_the_telemetry_protocol() {
    let requests: Vec<Value> = records().iter().map(|record| otlp(record, &source())).collect();
    insta::assert_snapshot!(lines(&requests));
}

#[test]
fn nothing_of_a_record_is_left_out_and_nothing_strange_is_fatal() {
    for record in [
        json!({}),
        json!([1]),
        json!(null),
        json!({ "event": 7, "argv": [1, null], "to": ":" , "time": "x" }),
    ] {
        assert_eq!(ocsf(&record, &source())["time"], 0);
        assert_eq!(otlp(&record, &source())["resourceLogs"].as_array().unwrap().len(), 1);
    }
    let record = json!({ "event": "connection", "to": "a:1", "new": { "nested": [1] } });
    assert_eq!(ocsf(&record, &source())["unmapped"]["new"], json!({ "nested": [1] }));
}
