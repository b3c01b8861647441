//! Steps of the queue's transactions.

use std::collections::BTreeSet;

use super::{Claimed, Draft, Holder, QueueError};
use crate::attempt::Completion;
use crate::file::from_stored;
use crate::id::{TaskId, Token};
use crate::record::{Claim, Record};
use crate::refused::Refused;
use crate::spec::TaskSpec;
use crate::store::Transaction;
use crate::task::{Status, Task};
use pinfold_content::Timestamp;

pub(super) fn new_task(draft: &Draft, spec: &TaskSpec, now: Timestamp) -> Task {
    Task {
        id: draft.id,
        title: spec.title.clone(),
        status: Status::Queued,
        priority: spec.priority,
        attempts: 0,
        max_attempts: spec.attempts,
        allowance: spec.attempts,
        losses: 0,
        waits_for: 0,
        timeouts: spec.timeouts,
        added_at: now,
        queued_at: now,
        updated_at: now,
        ended_at: None,
        expires_at: draft.expires_after.map(|after| now + after),
        accepted: None,
        failure: None,
    }
}

pub(super) fn load(transaction: &mut impl Transaction, id: TaskId) -> Result<Record, QueueError> {
    transaction.load(id)?.ok_or(QueueError::NotFound(id))
}

pub(super) fn spec(transaction: &mut impl Transaction, id: TaskId) -> Result<TaskSpec, QueueError> {
    let stored = transaction.spec(id)?.ok_or(QueueError::NotFound(id))?;
    from_stored(&stored).map_err(QueueError::Spec)
}

/// Returns whether a task waits for one that was removed without a result: one that has ended can be removed when this one has
/// ended, too.
pub(super) fn waits_for_removed(
    transaction: &mut impl Transaction,
    task: &Task,
) -> Result<bool, QueueError> {
    if task.waits_for == 0 {
        return Ok(false);
    }
    let mut needed = 0;
    for id in spec(transaction, task.id)?.depends.into_iter().collect::<BTreeSet<_>>() {
        let record = transaction.load(id)?;
        needed += u32::from(record.is_some_and(|it| it.task.status != Status::Completed));
    }
    Ok(needed < task.waits_for)
}

/// Makes time pass for the most overdue tasks.
pub(super) fn pass_time(
    transaction: &mut impl Transaction,
    now: Timestamp,
    limit: u32,
) -> Result<usize, QueueError> {
    let due = transaction.due(now, limit)?;
    for id in &due {
        let mut record = load(transaction, *id)?;
        record.pass_time(now);
        transaction.save(&record)?;
    }
    Ok(due.len())
}

/// Gives a task, which asks for this, to a worker, and saves it.
pub(super) fn begin(
    transaction: &mut impl Transaction,
    record: &mut Record,
    spec: TaskSpec,
    claim: &Claim,
) -> Result<Claimed, QueueError> {
    let now = transaction.now();
    // An attempt whose time is over is saved as such before the next one takes its place.
    if record.due().is_some_and(|due| due <= now) {
        record.pass_time(now);
        transaction.save(record)?;
        *record = load(transaction, record.task.id)?;
    }
    let (attempt, lasts) = {
        let attempt = record.claim(claim, now)?;
        (attempt.number, attempt.ttl)
    };
    transaction.save(record)?;
    let holder = Holder { task: record.task.id, attempt, token: claim.token };
    Ok(Claimed { holder, spec, lasts, provenance: None })
}

/// Answers a claim whose answer was lost.
pub(super) fn again(
    transaction: &mut impl Transaction,
    task: TaskId,
    token: Token,
) -> Result<Claimed, QueueError> {
    let now = transaction.now();
    let mut record = load(transaction, task)?;
    let attempt = record.task.attempts;
    let lasts = record.holds(attempt, token, now)?;
    let holder = Holder { task, attempt, token };
    Ok(Claimed { holder, spec: spec(transaction, task)?, lasts, provenance: None })
}

pub(super) fn check_output(output: &str) -> Result<(), QueueError> {
    if output.len() > Completion::LONGEST {
        return Err(Refused::Invalid("the output is too long").into());
    }
    match serde_json::from_str::<serde::de::IgnoredAny>(output) {
        Ok(_) => Ok(()),
        Err(_) => Err(Refused::Invalid("the output is not JSON").into()),
    }
}
