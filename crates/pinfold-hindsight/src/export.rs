//! Records of the audit log in the formats of other programs.
//!
//! - [`ocsf`]: an event of the Open Cybersecurity Schema Framework (<https://schema.ocsf.io/1.3.0>), for a SIEM.
//! - [`otlp`]: a request of the OpenTelemetry protocol's logs as JSON (OTLP 1.3), for a collector: its `otlpjsonfile` receiver reads
//!   one on each line, and `/v1/logs` takes one as a body.
//!
//! Nothing of a record is left out: what a format has no name for is in `unmapped`, or among the attributes.

mod ocsf;
mod otlp;

use std::time::{Duration, UNIX_EPOCH};

use serde_json::Value;

pub use ocsf::ocsf;
pub use otlp::otlp;

/// The program and the machine that records are of.
#[derive(Clone, Debug)]
pub struct Source {
    /// The version of the program.
    pub version: &'static str,
    /// The machine's name.
    pub host: String,
}

/// Returns the time of a record since 1970; zero for one that does not say.
fn time_of(record: &Value) -> Duration {
    let time = record["time"].as_str().and_then(|time| humantime::parse_rfc3339(time).ok());
    time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default()
}

/// Returns what happened, for people: `denial: network example.com:443`.
fn message(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or_default();
    let event = text("event");
    let details: Vec<String> = match event {
        "launch" => {
            let words = record["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
            vec![words.collect::<Vec<_>>().join(" ")]
        }
        "exit" | "end" => vec![format!("status {}", record["status"])],
        "denial" => {
            vec![text("door").to_owned(), text("what").to_owned(), text("reason").to_owned()]
        }
        "connection" => vec![text("to").to_owned()],
        "provider-failure" => ["provider", "host", "what"].map(|key| text(key).to_owned()).to_vec(),
        "decision" => {
            vec![text("outcome").to_owned(), text("access").to_owned(), text("path").to_owned()]
        }
        _ => ["what", "tool", "provider", "workspace", "executable"]
            .into_iter()
            .map(|key| text(key).to_owned())
            .collect(),
    };
    let details: Vec<String> = details.into_iter().filter(|detail| !detail.is_empty()).collect();
    if details.is_empty() { event.to_owned() } else { format!("{event}: {}", details.join(" ")) }
}

/// How serious a record is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    Information,
    /// Something was refused.
    Warning,
    /// Something of pinfold's own failed, or records are missing.
    Error,
}

fn severity_of(record: &Value) -> Severity {
    match record["event"].as_str() {
        Some("fault" | "dropped") => Severity::Error,
        Some("denial" | "provider-failure") => Severity::Warning,
        _ if record["outcome"] == "deny" => Severity::Warning,
        _ => Severity::Information,
    }
}

#[cfg(test)]
mod tests;
