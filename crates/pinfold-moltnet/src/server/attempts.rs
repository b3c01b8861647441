//! Working on tasks: claims, heartbeats and results.

use std::time::Duration;

use pinfold_tasks::{
    Attempt, AttemptStatus, Claim, Completion, Failure, Heartbeat, Holder, Lease, Note, Record,
    Refused, Status, Store, TaskId, Timestamp, Token, Transaction, Usage, attempt_key,
};

use super::caller::Caller;
use super::document::{Document, is_ready, load, notes, save};
use super::render;
use super::service::{Service, check};
use crate::problem::Problem;
use crate::task_type::TaskType;
use pinfold_content::{Cid, Object, Uuid, Value, read, times};

/// An attempt, by its task and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptId {
    pub(super) task: TaskId,
    pub(super) number: u32,
}

/// An attempt of the caller's that may be the current one.
pub(super) struct Own {
    pub(super) record: Record,
    pub(super) document: Document,
    pub(super) attempt: Attempt,
}

impl Own {
    /// Loads an attempt, and checks that the caller claimed it.
    pub(super) fn load(
        transaction: &mut impl Transaction,
        caller: &Caller,
        id: AttemptId,
    ) -> Result<Self, Problem> {
        let (record, document) = load(transaction, caller, id.task)?;
        let missing = || Problem::not_found("Task attempt not found");
        let attempt = match &record.attempt {
            Some(attempt) if attempt.number == id.number => attempt.clone(),
            _ => {
                let mut attempts = transaction.attempts(id.task)?.into_iter();
                attempts.find(|attempt| attempt.number == id.number).ok_or_else(missing)?
            }
        };
        if attempt.worker != caller.agent.id {
            return Err(Problem::forbidden("Attempt is claimed by another agent"));
        }
        Ok(Self { record, document, attempt })
    }

    /// Checks that the attempt may be reported on, in the order of the API.
    fn check_active(&mut self, now: Timestamp, doing: &str) -> Result<(), Problem> {
        self.record.pass_time(now);
        let ended = |status| Problem::refused(&Refused::Ended(status), doing);
        if self.record.task.status.is_terminal() {
            return Err(ended(self.record.task.status));
        }
        let current = self.record.attempt.as_ref();
        let attempt = current
            .filter(|attempt| attempt.number == self.attempt.number)
            .unwrap_or(&self.attempt);
        match attempt.status {
            AttemptStatus::Claimed => Err(Problem::refused(&Refused::NotStarted, doing)),
            AttemptStatus::Running if attempt.lease_until > now => Ok(()),
            AttemptStatus::Running | AttemptStatus::TimedOut => {
                Err(Problem::refused(&Refused::LeaseExpired, doing))
            }
            status => {
                Err(Problem::conflict(format!("Attempt is already in terminal state: {status}")))
            }
        }
    }

    fn holder(&self) -> Holder {
        Holder {
            task: self.record.task.id,
            attempt: self.attempt.number,
            token: self.attempt.token,
        }
    }
}

impl<S: Store> Service<S> {
    /// Gives a task to an agent.
    pub(super) fn claim(
        &self,
        caller: &Caller,
        id: TaskId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("claim", body)?;
        let profile = body.text_of("profileId");
        let lease = Uuid::generate().map_err(|_| Problem::internal())?;
        let token = Token::generate().map_err(|_| Problem::internal())?;
        self.store.write(|transaction| {
            let (mut record, document) = load(transaction, caller, id)?;
            if !document.allows_profile(profile.as_deref()) {
                return Err(Problem::forbidden("Task requires an allowed runtime profile"));
            }
            let manifest = super::runtime::registered(transaction, caller, body)?;
            let now = transaction.now();
            // An attempt that is over by now is saved as such before the next one takes its place.
            record.pass_time(now);
            save(transaction, &record)?;
            record = load(transaction, caller, id)?.0;
            let is_held_back = record.task.status == Status::Waiting && record.task.waits_for > 0;
            if is_held_back && is_ready(transaction, &document)? {
                record.dependency_completed(now);
            }
            let ttl = seconds(body);
            let claim = Claim { token, worker: caller.agent.id.clone(), ttl };
            let claimed = record.claim(&claim, now);
            let number = claimed.map_err(|refused| Problem::refused(&refused, "claim"))?.number;
            save(transaction, &record)?;
            let kept = Value::object([
                ("leaseId", lease.to_string().into()),
                ("runtimeProfileId", profile.as_deref().into()),
                (
                    "runtimeProfileRevision",
                    profile.as_ref().map(|_| super::runtime::REVISION).into(),
                ),
                ("claimedExecutorFingerprint", field(body, "executorFingerprint")),
                ("claimedExecutorManifest", manifest),
            ]);
            keep(transaction, AttemptId { task: id, number }, &kept)?;
            let attempt = record.attempt.as_ref().ok_or_else(Problem::internal)?;
            let attempt = render::attempt(transaction, &record.task, attempt)?;
            let task = render::record(transaction, &record, &document)?;
            Ok(Value::object([("task", task), ("attempt", attempt)]))
        })
    }

    /// Renews a lease, or says that the task was cancelled. The first heartbeat starts the attempt.
    pub(super) fn heartbeat(
        &self,
        caller: &Caller,
        id: AttemptId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("heartbeat", body)?;
        self.store.write(|transaction| {
            let mut own = Own::load(transaction, caller, id)?;
            let now = transaction.now();
            own.record.pass_time(now);
            let task = &own.record.task;
            if task.status == Status::Cancelled {
                let reason = task.failure.as_ref().map(|failure| failure.message.as_str());
                return Ok(answer(own.attempt.ended_at.or(task.ended_at), Some(reason)));
            }
            if task.status.is_terminal() {
                return Err(Problem::refused(&Refused::Ended(task.status), "heartbeat"));
            }
            if id.number != task.attempts {
                return Err(Problem::forbidden("Task is claimed by another attempt"));
            }
            let token = own.attempt.token;
            let renewed = own.record.heartbeat(id.number, token, Some(seconds(body)), now);
            match renewed.map_err(|refused| Problem::refused(&refused, "heartbeat"))? {
                Heartbeat::Renewed(_) => {
                    save(transaction, &own.record)?;
                    let until = own.record.attempt.as_ref().map(|attempt| attempt.lease_until);
                    Ok(answer(until, None))
                }
                Heartbeat::Cancelled(_) => Err(Problem::internal()),
            }
        })
    }

    /// Accepts a result.
    pub(super) fn complete(
        &self,
        caller: &Caller,
        id: AttemptId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("complete", body)?;
        self.store.write(|transaction| {
            let mut own = Own::load(transaction, caller, id)?;
            let now = transaction.now();
            own.check_active(now, "complete")?;
            let completion = completion(&own.document, body)?;
            let manifest = super::runtime::registered(transaction, caller, body)?;
            let holder = own.holder();
            let settled = own.record.complete(holder.attempt, holder.token, completion, now);
            settled.map_err(|refused| Problem::refused(&refused, "complete"))?;
            let signature = field(body, "contentSignature");
            let signed = if signature == Value::Null { None } else { Some(now) };
            let more = Value::object([
                ("completedExecutorFingerprint", field(body, "executorFingerprint")),
                ("completedExecutorManifest", manifest),
                ("contentSignature", signature),
                ("signedAt", times::value(signed)),
                ("daemonState", field(body, "daemonState")),
            ]);
            keep(transaction, id, &more)?;
            save(transaction, &own.record)?;
            render::record(transaction, &own.record, &own.document)
        })
    }

    /// Accepts that an attempt failed. The task is queued again unless the error says that it is not worth it.
    pub(super) fn fail(
        &self,
        caller: &Caller,
        id: AttemptId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("fail", body)?;
        let error = field(body, "error");
        let failure = Failure {
            retryable: error.get("retryable").and_then(Value::as_bool),
            ..Failure::new(
                &error.text_of("code").unwrap_or_default(),
                error.text_of("message").unwrap_or_default(),
            )
        };
        self.end(caller, id, "fail", &[("error", error)], |record, holder, now| {
            record.fail(holder.attempt, holder.token, failure, now).map(drop)
        })
    }

    /// Takes a task back from a worker that cannot go on.
    pub(super) fn abort(
        &self,
        caller: &Caller,
        id: AttemptId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("abort", body)?;
        let reason = body.text_of("reason").unwrap_or("aborted by the worker".into());
        self.end(caller, id, "abort", &[], |record, holder, now| {
            record.abort(holder.attempt, holder.token, &reason, now).map(drop)
        })
    }

    /// Ends an attempt without a result.
    fn end(
        &self,
        caller: &Caller,
        id: AttemptId,
        doing: &str,
        more: &[(&str, Value)],
        decide: impl FnOnce(&mut Record, &Holder, Timestamp) -> Result<(), Refused>,
    ) -> Result<Value, Problem> {
        self.store.write(|transaction| {
            let mut own = Own::load(transaction, caller, id)?;
            let now = transaction.now();
            own.check_active(now, doing)?;
            let holder = own.holder();
            let decided = decide(&mut own.record, &holder, now);
            decided.map_err(|refused| Problem::refused(&refused, doing))?;
            let more = more
                .iter()
                .fold(Object::default(), |all, (name, value)| all.with(name, value.clone()));
            keep(transaction, id, &more.into())?;
            save(transaction, &own.record)?;
            render::record(transaction, &own.record, &own.document)
        })
    }

    /// Returns the attempts at a task.
    pub(super) fn attempts(&self, caller: &Caller, id: TaskId) -> Result<Value, Problem> {
        self.store.read(|transaction| {
            let (record, _) = load(transaction, caller, id)?;
            let attempts = transaction.attempts(id)?;
            let render = |attempt: &Attempt| render::attempt(transaction, &record.task, attempt);
            attempts.iter().map(render).collect::<Result<Vec<_>, _>>().map(Value::Array)
        })
    }

    /// Checks that the caller may add something to a running attempt.
    pub(super) fn active(
        transaction: &mut S::Transaction<'_>,
        caller: &Caller,
        id: AttemptId,
        doing: &str,
    ) -> Result<Own, Problem> {
        let mut own = Own::load(transaction, caller, id)?;
        let now = transaction.now();
        own.check_active(now, doing)?;
        Ok(own)
    }
}

/// Keeps fields of an attempt, together with those that are kept.
fn keep(transaction: &mut impl Transaction, id: AttemptId, fields: &Value) -> Result<(), Problem> {
    let key = attempt_key(id.task, id.number);
    let kept = transaction
        .note(notes::ATTEMPT, &key)?
        .map_or(Ok(Value::Null), |text| read(&text).map_err(|_| Problem::internal()))?
        .as_object()
        .cloned()
        .unwrap_or_default();
    let fields = fields.as_object().into_iter().flat_map(Object::members);
    let all = fields.fold(kept, |all, (name, value)| all.with(&name.to_str(), value.clone()));
    let note = Note { key, content: Value::from(all).to_string() };
    Ok(transaction.set_note(notes::ATTEMPT, &note, Some(id.task))?)
}

/// Returns the result that a worker reports, if it is one for this task.
fn completion(document: &Document, body: &Value) -> Result<Completion, Problem> {
    let kind = document.text("taskType");
    let kind = TaskType::find(&kind).ok_or_else(Problem::internal)?;
    let output = field(body, "output");
    kind.check_output(&output, &document.field("input"), &document.text("inputCid"))?;
    let cid = Cid::of_json(&output);
    if body.text_of("outputCid").is_none_or(|given| given != cid.as_str()) {
        return Err(Problem::field("outputCid", format!("Expected {cid} for the supplied output")));
    }
    let output = output.to_string();
    if output.len() > Completion::LONGEST {
        return Err(Problem::field("output", "is too long"));
    }
    let usage = serde_json::from_str::<Usage>(&field(body, "usage").to_string())
        .map_err(|_| Problem::field("usage", "is invalid"))?;
    Ok(Completion { output, usage })
}

fn answer(until: Option<Timestamp>, cancelled: Option<Option<&str>>) -> Value {
    Value::object([
        ("claimExpiresAt", times::value(until)),
        ("cancelled", cancelled.is_some().into()),
        ("cancelReason", cancelled.flatten().into()),
    ])
}

/// Returns how long the lease is to last.
fn seconds(body: &Value) -> Duration {
    let given = body.get("leaseTtlSec").and_then(Value::as_count);
    given.map_or(Lease::TTL, Duration::from_secs)
}

fn field(body: &Value, name: &str) -> Value {
    body.get(name).cloned().unwrap_or(Value::Null)
}
