//! `pinfold audit`: read the log.

use std::process::ExitCode;
use std::time::Duration;

use pinfold_session::audit::Reader;
use pinfold_session::places::Places;
use serde_json::Value;

use crate::cli::AuditArgs;
use crate::exit::Failure;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) fn audit(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::new)?;
    let mut reader = Reader::open(&places.state).map_err(Failure::new)?;
    loop {
        while let Some(record) = next(reader.as_mut())? {
            if args.session.as_ref().is_none_or(|id| record["session"] == **id) {
                show(&record, args.output.json);
            }
        }
        if !args.follow {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK);
        if reader.is_none() {
            reader = Reader::open(&places.state).map_err(Failure::new)?;
        }
    }
}

fn next(reader: Option<&mut Reader>) -> Result<Option<Value>, Failure> {
    reader.map_or(Ok(None), Reader::next_record).map_err(Failure::new)
}

fn show(record: &Value, json: bool) {
    if json {
        println!("{record}");
        return;
    }
    let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let rest = record.as_object().into_iter().flatten();
    let rest = rest.filter(|(key, _)| !matches!(key.as_str(), "time" | "session" | "event"));
    let details: Vec<String> = rest.map(|(key, value)| format!("{key}={}", brief(value))).collect();
    println!("{} {} {} {}", text("time"), text("session"), text("event"), details.join(" "));
}

/// Lists of grants are for `--json`; a line for people says how many there are.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items.len().to_string(),
        other => other.to_string(),
    }
}
