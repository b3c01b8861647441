//! Events of the Open Cybersecurity Schema Framework, version 1.3.

use serde_json::{Map, Value, json};

use super::{Severity, Source, message, severity_of, time_of};

const SCHEMA: &str = "1.3.0";
/// What each event says in fields of its own.
const OWN: [&str; 4] = ["time", "session", "event", "chain"];

/// A class of the schema, its category, and an activity of it.
struct Kind {
    category: u32,
    class: u32,
    activity: u32,
    /// The activity's name where the class has none for it.
    named: Option<&'static str>,
}

const LAUNCH: Kind = Kind::new(1, 1007, 1);
const TERMINATE: Kind = Kind::new(1, 1007, 2);
const OPEN: Kind = Kind::new(4, 4001, 1);
const REFUSE: Kind = Kind::new(4, 4001, 5);
const START: Kind = Kind::new(6, 6002, 3);
const STOP: Kind = Kind::new(6, 6002, 4);
/// The base class, for what no other one is made for.
const BASE: Kind = Kind::new(0, 0, OTHER);
const FILE: Kind = Kind::new(1, 1001, OTHER);
const API: Kind = Kind::new(6, 6003, OTHER);
/// The activity that is named by a text.
const OTHER: u32 = 99;

impl Kind {
    const fn new(category: u32, class: u32, activity: u32) -> Self {
        Self { category, class, activity, named: None }
    }

    const fn named(self, name: &'static str) -> Self {
        Self { named: Some(name), ..self }
    }
}

/// Returns a record of the audit log as an event.
#[must_use]
pub fn ocsf(record: &Value, source: &Source) -> Value {
    let (kind, fields) = classified(record, source);
    let mut event = json!({
        "activity_id": kind.activity,
        "category_uid": kind.category,
        "class_uid": kind.class,
        "type_uid": kind.class * 100 + kind.activity,
        "time": u64::try_from(time_of(record).as_millis()).unwrap_or(u64::MAX),
        "severity_id": match severity_of(record) {
            Severity::Information => 1,
            Severity::Warning => 2,
            Severity::Error => 4,
        },
        "message": message(record),
        "metadata": {
            "version": SCHEMA,
            "product": { "name": "pinfold", "vendor_name": "pinfold", "version": source.version },
            "log_name": "audit",
            "event_code": record["event"],
            "correlation_uid": record["session"],
        },
        "device": { "hostname": source.host, "type_id": 0 },
    });
    if let Some(named) = kind.named {
        event["activity_name"] = named.into();
    }
    if record["session"].is_null()
        && let Some(metadata) = event["metadata"].as_object_mut()
    {
        metadata.remove("correlation_uid");
    }
    let own = |key: &str| OWN.contains(&key);
    let rest = record.as_object().into_iter().flatten().filter(|(key, _)| !own(key));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !rest.is_empty() {
        event["unmapped"] = rest.into();
    }
    for (key, value) in fields {
        event[key] = value;
    }
    event
}

/// Returns the class and activity of a record, and the fields that the class has for it.
fn classified(record: &Value, source: &Source) -> (Kind, Vec<(&'static str, Value)>) {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let actor =
        ("actor", json!({ "app_name": "pinfold", "session": { "uid": record["session"] } }));
    let here = || ("src_endpoint", json!({ "hostname": source.host }));
    match text("event") {
        "launch" => {
            let words: Vec<&str> =
                record["argv"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let name = words.first().copied().unwrap_or_default();
            let process = json!({ "name": name, "cmd_line": words.join(" "), "working_directory": record["cwd"] });
            (LAUNCH, vec![actor, ("process", process)])
        }
        "exit" => {
            let process = json!({ "name": "", "uid": record["number"].to_string() });
            (TERMINATE, vec![actor, ("process", process), ("exit_code", record["status"].clone())])
        }
        "connection" => (OPEN, vec![here(), ("dst_endpoint", endpoint(text("to")))]),
        "denial" if text("door") == "network" => {
            let refused =
                [("action_id", 2.into()), ("disposition_id", 2.into()), ("status_id", 2.into())];
            let ends = [
                here(),
                ("dst_endpoint", endpoint(text("what"))),
                ("status_detail", record["reason"].clone()),
            ];
            (REFUSE, ends.into_iter().chain(refused).collect())
        }
        "session" => (START, vec![app()]),
        "end" => (STOP, vec![app(), ("status_code", record["status"].to_string().into())]),
        "decision" => {
            let name = text("path").rsplit('/').next().unwrap_or_default();
            let file = json!({ "name": name, "path": record["path"], "type_id": 0 });
            let kind = match text("access") {
                "read" => Kind { activity: 2, ..FILE },
                "write" => Kind { activity: 3, ..FILE },
                "delete" => Kind { activity: 4, ..FILE },
                _ => FILE.named("access"),
            };
            (kind, vec![actor, ("file", file), ("status_id", status_of(record))])
        }
        "credential-use" => {
            let api = json!({ "operation": record["request"], "service": { "name": record["provider"] } });
            let to = ("dst_endpoint", endpoint(text("host")));
            (API.named("credential use"), vec![actor, here(), ("api", api), to])
        }
        "memory" => {
            let api = json!({ "operation": record["tool"], "service": { "name": "memory" } });
            (API.named("memory"), vec![actor, here(), ("api", api)])
        }
        _ => (BASE.named("audit"), vec![("status_id", status_of(record))]),
    }
}

fn app() -> (&'static str, Value) {
    ("app", json!({ "name": "pinfold", "vendor_name": "pinfold" }))
}

/// Returns whether it succeeded: 1, 2 if not, 0 for what does not say.
fn status_of(record: &Value) -> Value {
    match record["outcome"].as_str() {
        Some("allow") => 1.into(),
        Some(_) => 2.into(),
        None => 0.into(),
    }
}

/// Returns the endpoint of a host with a port, if it has one.
fn endpoint(to: &str) -> Value {
    match to.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
        Some((host, Ok(port))) => {
            json!({ "hostname": host.trim_start_matches('[').trim_end_matches(']'), "port": port })
        }
        _ => json!({ "hostname": to }),
    }
}
