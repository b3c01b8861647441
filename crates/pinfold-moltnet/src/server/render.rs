//! Tasks and attempts as the API shows them. Shapes are closed: clients decode them strictly.

use pinfold_tasks::{Attempt, Record, Status, Task, Transaction, attempt_key, attempt_value};

use super::document::{Document, changing, notes};
use crate::problem::Problem;
use pinfold_content::{Value, read, times};

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
    attempt_value(of.id, attempt, &kept).map_err(|_| Problem::internal())
}
