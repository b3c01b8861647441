//! Attempts and their messages as MoltNet's API shows them.

use pinfold_content::{Cid, InvalidJson, Value, read, times};

use crate::attempt::Attempt;
use crate::id::TaskId;
use crate::queue::Message;

/// Returns an attempt. `kept` has the fields that a queue does not know, as a server keeps them.
///
/// # Errors
/// Returns an error for an output that is not JSON.
pub fn attempt_value(task: TaskId, attempt: &Attempt, kept: &Value) -> Result<Value, InvalidJson> {
    let kept = |name: &str| kept.get(name).cloned().unwrap_or(Value::Null);
    let completion = attempt.completion.as_ref();
    let output = completion.map(|completion| read(&completion.output)).transpose()?;
    let usage = completion
        .and_then(|completion| serde_json::to_string(&completion.usage).ok())
        .and_then(|text| read(&text).ok());
    Ok(Value::object([
        ("taskId", task.to_string().into()),
        ("attemptN", attempt.number.into()),
        ("claimedByAgentId", attempt.worker.as_str().into()),
        ("leaseId", kept("leaseId")),
        ("runtimeProfileId", kept("runtimeProfileId")),
        ("runtimeProfileRevision", kept("runtimeProfileRevision")),
        ("policySnapshotHash", Value::Null),
        ("runtimeId", Value::Null),
        ("claimedAt", times::write(attempt.claimed_at).into()),
        ("startedAt", times::value(attempt.started_at)),
        ("completedAt", times::value(attempt.ended_at)),
        ("status", attempt.status.word().into()),
        ("outputCid", output.as_ref().map(|output| Cid::of_json(output).to_string()).into()),
        ("output", output.into()),
        ("claimedExecutorFingerprint", kept("claimedExecutorFingerprint")),
        ("claimedExecutorManifest", kept("claimedExecutorManifest")),
        ("completedExecutorFingerprint", kept("completedExecutorFingerprint")),
        ("completedExecutorManifest", kept("completedExecutorManifest")),
        ("error", error(attempt, &kept("error"))),
        ("usage", usage.into()),
        ("contentSignature", kept("contentSignature")),
        ("signedAt", kept("signedAt")),
        ("daemonState", kept("daemonState")),
    ]))
}

/// Returns why an attempt failed: what the worker said, or what the queue found.
fn error(attempt: &Attempt, said: &Value) -> Value {
    let Some(failure) = &attempt.failure else { return Value::Null };
    if let Some(said) = said.as_object()
        && said.get("code").and_then(Value::as_text).is_some_and(|code| code == failure.code)
    {
        return said.clone().into();
    }
    let error = Value::object([
        ("code", failure.code.as_str().into()),
        ("message", failure.message.as_str().into()),
    ]);
    match (error, failure.retryable) {
        (Value::Object(error), Some(retryable)) => error.with("retryable", retryable).into(),
        (error, _) => error,
    }
}

/// Returns a message of an attempt.
///
/// # Errors
/// Returns an error for a payload that is not JSON.
pub fn message_value(task: TaskId, attempt: u32, message: &Message) -> Result<Value, InvalidJson> {
    Ok(Value::object([
        ("taskId", task.to_string().into()),
        ("attemptN", attempt.into()),
        ("seq", message.number.into()),
        ("timestamp", times::write(message.at).into()),
        ("kind", message.kind.as_str().into()),
        ("payload", read(&message.payload)?),
    ]))
}
