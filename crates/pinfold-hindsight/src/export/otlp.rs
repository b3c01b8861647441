//! Requests of the OpenTelemetry protocol (`ExportLogsServiceRequest`, opentelemetry-proto 1.3), in its JSON form.

use serde_json::{Value, json};

use super::{Severity, Source, message, severity_of, time_of};

/// Returns a record of the audit log as a request with one log record.
#[must_use]
pub fn otlp(record: &Value, source: &Source) -> Value {
    let (number, text) = match severity_of(record) {
        Severity::Information => (9, "INFO"),
        Severity::Warning => (13, "WARN"),
        Severity::Error => (17, "ERROR"),
    };
    // 64-bit integers are strings in the JSON form of protocol buffers.
    let time = time_of(record).as_nanos().to_string();
    let fields = record.as_object().into_iter().flatten().filter(|(key, _)| *key != "time");
    let attributes: Vec<Value> =
        fields.map(|(key, value)| attribute(&format!("pinfold.{key}"), value)).collect();
    let resource = [
        attribute("service.name", &"pinfold".into()),
        attribute("service.version", &source.version.into()),
        attribute("host.name", &source.host.as_str().into()),
    ];
    let log = json!({
        "timeUnixNano": time,
        "observedTimeUnixNano": time,
        "severityNumber": number,
        "severityText": text,
        "body": { "stringValue": message(record) },
        "attributes": attributes,
    });
    json!({
        "resourceLogs": [{
            "resource": { "attributes": resource },
            "scopeLogs": [{ "scope": { "name": "pinfold.audit" }, "logRecords": [log] }],
        }],
    })
}

fn attribute(key: &str, value: &Value) -> Value {
    json!({ "key": key, "value": any(value) })
}

/// Returns a value as an `AnyValue`.
fn any(value: &Value) -> Value {
    match value {
        Value::Null => json!({}),
        Value::Bool(flag) => json!({ "boolValue": flag }),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => json!({ "intValue": whole.to_string() }),
            None => json!({ "doubleValue": number.as_f64() }),
        },
        Value::String(text) => json!({ "stringValue": text }),
        Value::Array(items) => {
            let values: Vec<Value> = items.iter().map(any).collect();
            json!({ "arrayValue": { "values": values } })
        }
        Value::Object(members) => {
            let values: Vec<Value> =
                members.iter().map(|(key, value)| attribute(key, value)).collect();
            json!({ "kvlistValue": { "values": values } })
        }
    }
}
