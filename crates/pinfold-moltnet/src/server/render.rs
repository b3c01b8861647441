//! Tasks and attempts as the API shows them. Shapes are closed: clients decode them strictly.

use pinfold_tasks::{Attempt, Record, Status, Task, Transaction};

use super::document::{Document, attempt_key, changing, notes};
use crate::problem::Problem;
use pinfold_content::{Cid, Value, read, times};

/// Returns a task.
pub(super) fn task(
    transaction: &mut impl Transaction,
    task: &Task,
    document: &Document,
) -> Result<Value, Problem> {
    let changing = changing(transaction, task.id, document)?;
    let changed = |name: &str| changing.get(name).cloned().unwrap_or(Value::Null);
    let field = |name: &str| document.field(name);
    let reason = task.failure.as_ref().filter(|_| task.status == Status::Cancelled);
    Ok(Value::object([
        ("id", task.id.to_string().into()),
        ("taskType", field("taskType")),
        ("title", changed("title")),
        ("tags", changed("tags")),
        ("teamId", field("teamId")),
        ("diaryId", field("diaryId")),
        ("outputKind", field("outputKind")),
        ("input", field("input")),
        ("inputSchemaCid", field("inputSchemaCid")),
        ("inputCid", field("inputCid")),
        ("references", field("references")),
        ("correlationId", field("correlationId")),
        ("proposedByAgentId", field("proposedByAgentId")),
        ("proposedByHumanId", Value::Null),
        ("acceptedAttemptN", task.accepted.into()),
        ("claimCondition", field("claimCondition")),
        ("requiredExecutorTrustLevel", field("requiredExecutorTrustLevel")),
        ("allowedProfiles", field("allowedProfiles")),
        ("status", task.status.word().into()),
        ("queuedAt", times::write(task.added_at).into()),
        ("completedAt", times::value(task.ended_at)),
        ("expiresAt", times::value(task.expires_at)),
        ("cancelledByAgentId", changed("cancelledByAgentId")),
        ("cancelledByHumanId", Value::Null),
        ("cancelReason", reason.map(|failure| failure.message.as_str()).into()),
        ("maxAttempts", task.max_attempts.into()),
        ("dispatchTimeoutSec", field("dispatchTimeoutSec")),
        ("runningTimeoutSec", field("runningTimeoutSec")),
    ]))
}

/// Returns the task of a record.
pub(super) fn record(
    transaction: &mut impl Transaction,
    record: &Record,
    document: &Document,
) -> Result<Value, Problem> {
    task(transaction, &record.task, document)
}

/// Returns an attempt.
pub(super) fn attempt(
    transaction: &mut impl Transaction,
    of: &Task,
    attempt: &Attempt,
) -> Result<Value, Problem> {
    let text = transaction.note(notes::ATTEMPT, &attempt_key(of.id, attempt.number))?;
    let kept = text.map_or(Ok(Value::Null), |text| read(&text).map_err(|_| Problem::internal()))?;
    let kept = |name: &str| kept.get(name).cloned().unwrap_or(Value::Null);
    let output = attempt
        .completion
        .as_ref()
        .map(|completion| read(&completion.output))
        .transpose()
        .map_err(|_| Problem::internal())?;
    let usage = attempt
        .completion
        .as_ref()
        .map(|completion| &completion.usage)
        .map(|usage| serde_json::to_string(usage).ok().and_then(|it| read(&it).ok()));
    Ok(Value::object([
        ("taskId", of.id.to_string().into()),
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
        ("usage", usage.flatten().into()),
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
