//! The state machine of a task: every change is decided here, by values alone.
//!
//! ```text
//! waiting ─▶ queued ─claim─▶ dispatched ─heartbeat─▶ running ─complete─▶ completed
//!              ▲                 │                      │
//!              └── attempts left ┴─ lost, failed, given back ──no more──▶ failed
//! ```
//! Any state that is not terminal can become `cancelled`, and one that was not begun `expired`.

mod deadlines;

use std::time::Duration;

use crate::attempt::{Attempt, AttemptStatus, Completion};
use crate::failure::{Failure, Repetition, code};
use crate::id::Token;
use crate::lease::Lease;
use crate::refused::Refused;
use crate::task::{Status, Task};
use crate::text::beginning;
use pinfold_content::Timestamp;

pub use deadlines::QUARANTINE_AFTER;

/// The longest name of a worker that is kept, in bytes.
const LONGEST_NAME: usize = 255;

/// A task with its latest attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub task: Task,
    /// Its latest attempt.
    pub attempt: Option<Attempt>,
    /// How often it was saved. A store refuses to save a record that somebody else has saved since it was loaded.
    pub(crate) version: u64,
}

/// A worker's wish for a task.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What it will hold the attempt with.
    pub token: Token,
    /// Its name, for people.
    pub worker: String,
    /// How long it wants the lease to last.
    pub ttl: Duration,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heartbeat {
    /// The lease lasts so long from now on. It is never longer than the attempt may take.
    Renewed(Duration),
    /// The user cancelled the task, and said why. The worker has to stop.
    Cancelled(String),
}

/// Whether a result was news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It was accepted.
    Now,
    /// The same result was accepted before: the answer was lost.
    Before,
}

impl Record {
    /// Returns a new task that nobody has tried yet.
    #[must_use]
    pub fn new(task: Task) -> Self {
        Self { task, attempt: None, version: 0 }
    }

    /// Gives the task to a worker.
    ///
    /// # Errors
    /// Returns an error if the task is not queued.
    pub fn claim(&mut self, claim: &Claim, now: Timestamp) -> Result<&Attempt, Refused> {
        self.pass_time(now);
        let now = self.at(now);
        match self.task.status {
            Status::Queued if self.task.attempts >= self.task.max_attempts => {
                return Err(Refused::Exhausted);
            }
            Status::Queued => {}
            status if status.is_terminal() => return Err(Refused::Ended(status)),
            _ => return Err(Refused::NotQueued),
        }
        let ttl = bounded(claim.ttl);
        self.task.attempts += 1;
        self.task.status = Status::Dispatched;
        Ok(self.attempt.insert(Attempt {
            number: self.task.attempts,
            status: AttemptStatus::Claimed,
            worker: beginning(&claim.worker, LONGEST_NAME).to_owned(),
            token: claim.token,
            claimed_at: now,
            started_at: None,
            ended_at: None,
            lease_until: now + ttl,
            ttl,
            completion: None,
            failure: None,
        }))
    }

    /// Renews a lease. The first heartbeat starts the attempt.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt or its lease is over.
    pub fn heartbeat(
        &mut self,
        number: u32,
        token: Token,
        ttl: Option<Duration>,
        now: Timestamp,
    ) -> Result<Heartbeat, Refused> {
        self.pass_time(now);
        let now = self.at(now);
        let attempt = held(self.attempt.as_mut(), number, token)?;
        match self.task.status {
            Status::Cancelled => {
                let reason = self.task.failure.as_ref().map(|failure| failure.message.clone());
                return Ok(Heartbeat::Cancelled(reason.unwrap_or_default()));
            }
            status if status.is_terminal() => return Err(Refused::Ended(status)),
            _ => {}
        }
        if !attempt.status.is_active() || attempt.lease_until <= now {
            return Err(Refused::LeaseExpired);
        }
        if attempt.status == AttemptStatus::Claimed {
            attempt.status = AttemptStatus::Running;
            attempt.started_at = Some(now);
            self.task.status = Status::Running;
        }
        attempt.ttl = ttl.map_or(attempt.ttl, bounded);
        // A worker that ends its sandbox with its lease ends it before the attempt times out.
        let end = attempt.started_at.map(|started| started + self.task.timeouts.running);
        let until = now + attempt.ttl;
        attempt.lease_until = end.map_or(until, |end| until.min(end));
        Ok(Heartbeat::Renewed(attempt.lease_until.since(now)))
    }

    /// Accepts a result.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt, has not started it, or its lease is over.
    pub fn complete(
        &mut self,
        number: u32,
        token: Token,
        completion: Completion,
        now: Timestamp,
    ) -> Result<Settled, Refused> {
        self.pass_time(now);
        let now = self.at(now);
        let attempt = held(self.attempt.as_mut(), number, token)?;
        if attempt.status == AttemptStatus::Completed {
            return repeated(attempt.completion.as_ref() == Some(&completion));
        }
        startable(self.task.status, attempt, now)?;
        attempt.completion = Some(completion);
        attempt.status = AttemptStatus::Completed;
        attempt.ended_at = Some(now);
        self.task.accepted = Some(number);
        self.task.losses = 0;
        self.end(Status::Completed, None, now);
        Ok(Settled::Now)
    }

    /// Accepts that an attempt failed.
    ///
    /// # Errors
    /// Returns the errors of [`Self::complete`].
    pub fn fail(
        &mut self,
        number: u32,
        token: Token,
        mut failure: Failure,
        now: Timestamp,
    ) -> Result<Settled, Refused> {
        failure.bound();
        self.conclude(number, token, AttemptStatus::Failed, failure, now)
    }

    /// Takes a task back from a worker that cannot go on.
    ///
    /// # Errors
    /// Returns the errors of [`Self::complete`].
    pub fn abort(
        &mut self,
        number: u32,
        token: Token,
        reason: &str,
        now: Timestamp,
    ) -> Result<Settled, Refused> {
        let failure = Failure::new(code::WORKER_ABORTED, reason);
        self.conclude(number, token, AttemptStatus::Aborted, failure, now)
    }

    /// Checks that a worker holds an attempt that is not over, and returns how long its lease lasts.
    ///
    /// # Errors
    /// Returns an error if it does not.
    pub fn holds(
        &mut self,
        number: u32,
        token: Token,
        now: Timestamp,
    ) -> Result<Duration, Refused> {
        self.pass_time(now);
        let now = self.at(now);
        let attempt = held(self.attempt.as_mut(), number, token)?;
        match attempt.status.is_active() && attempt.lease_until > now {
            true => Ok(attempt.lease_until.since(now)),
            false if self.task.status.is_terminal() => Err(Refused::Ended(self.task.status)),
            false => Err(Refused::LeaseExpired),
        }
    }

    /// Ends a task because the user says so. Its worker learns of it at the next heartbeat.
    ///
    /// # Errors
    /// Returns an error if the task has ended.
    pub fn cancel(&mut self, reason: &str, now: Timestamp) -> Result<(), Refused> {
        self.pass_time(now);
        let now = self.at(now);
        if self.task.status.is_terminal() {
            return Err(Refused::Ended(self.task.status));
        }
        let failure = Failure::new(code::TASK_CANCELLED, reason);
        self.end_attempt(AttemptStatus::Cancelled, &failure, now);
        self.end(Status::Cancelled, Some(failure), now);
        Ok(())
    }

    /// Ends a task that nobody has begun, because nobody can work on it.
    pub(crate) fn refuse(&mut self, mut failure: Failure, now: Timestamp) {
        failure.bound();
        let now = self.at(now);
        self.end(Status::Failed, Some(failure), now);
    }

    /// Queues a task again that has ended without a result, with as many attempts as it had at first. It waits until
    /// the lease of a cancelled attempt is over: its worker may not know yet.
    ///
    /// # Errors
    /// Returns an error if the task has a result or has not ended.
    pub fn retry(&mut self, now: Timestamp) -> Result<(), Refused> {
        self.pass_time(now);
        let now = self.at(now);
        match self.task.status {
            Status::Failed | Status::Cancelled | Status::Expired => {}
            status => return Err(Refused::NotEnded(status)),
        }
        let task = &mut self.task;
        task.max_attempts = task.attempts.saturating_add(task.allowance);
        (task.losses, task.failure, task.ended_at, task.expires_at) = (0, None, None, None);
        self.enqueue(now);
        Ok(())
    }

    /// Notes that a task that this one waits for has a result.
    pub fn dependency_completed(&mut self, now: Timestamp) {
        self.pass_time(now);
        let now = self.at(now);
        self.task.waits_for = self.task.waits_for.saturating_sub(1);
        if self.task.status == Status::Waiting {
            self.enqueue(now);
        }
    }

    /// Ends an attempt without a result, for what its worker says.
    fn conclude(
        &mut self,
        number: u32,
        token: Token,
        status: AttemptStatus,
        failure: Failure,
        now: Timestamp,
    ) -> Result<Settled, Refused> {
        self.pass_time(now);
        let now = self.at(now);
        let attempt = held(self.attempt.as_mut(), number, token)?;
        if attempt.status == status {
            return repeated(attempt.failure.as_ref() == Some(&failure));
        }
        startable(self.task.status, attempt, now)?;
        self.end_attempt(status, &failure, now);
        self.task.losses = 0;
        self.go_on(failure, now);
        Ok(Settled::Now)
    }

    /// Queues the task for another attempt, or ends it for this failure.
    fn go_on(&mut self, failure: Failure, now: Timestamp) {
        let is_left = self.task.attempts < self.task.max_attempts;
        match failure.repetition() {
            Repetition::Again if is_left => self.enqueue(now),
            Repetition::Again | Repetition::Final => {
                self.end(Status::Failed, Some(failure), now);
            }
        }
    }

    /// Lets the task be claimed, if it waits for nothing.
    fn enqueue(&mut self, now: Timestamp) {
        let may_run = self.attempt.as_ref().is_some_and(|attempt| {
            attempt.status == AttemptStatus::Cancelled && attempt.lease_until > now
        });
        let is_ready = self.task.waits_for == 0 && !may_run;
        self.task.status = if is_ready { Status::Queued } else { Status::Waiting };
        self.task.queued_at = now;
    }

    fn end(&mut self, status: Status, failure: Option<Failure>, now: Timestamp) {
        self.task.status = status;
        self.task.failure = failure;
        self.task.ended_at = Some(now);
    }

    fn end_attempt(&mut self, status: AttemptStatus, failure: &Failure, now: Timestamp) {
        if let Some(attempt) = self.attempt.as_mut().filter(|attempt| attempt.status.is_active()) {
            attempt.status = status;
            attempt.failure = Some(failure.clone());
            attempt.ended_at = Some(now);
        }
    }

    /// Returns the time of a change: never before the one before it, also if the clock was set back.
    fn at(&mut self, now: Timestamp) -> Timestamp {
        self.task.updated_at = self.task.updated_at.max(now);
        self.task.updated_at
    }
}

/// Returns the attempt that a worker says it holds.
fn held(attempt: Option<&mut Attempt>, number: u32, token: Token) -> Result<&mut Attempt, Refused> {
    match attempt {
        Some(attempt) if attempt.number == number && attempt.token == token => Ok(attempt),
        Some(attempt) if attempt.number == number => Err(Refused::NotHolder),
        Some(attempt) if number > 0 && number < attempt.number => Err(Refused::LeaseExpired),
        _ => Err(Refused::NoSuchAttempt(number)),
    }
}

/// Checks that an attempt may end by its worker's word.
fn startable(task: Status, attempt: &Attempt, now: Timestamp) -> Result<(), Refused> {
    if task.is_terminal() {
        return Err(Refused::Ended(task));
    }
    if !attempt.status.is_active() || attempt.lease_until <= now {
        return Err(Refused::LeaseExpired);
    }
    match attempt.status {
        AttemptStatus::Claimed => Err(Refused::NotStarted),
        _ => Ok(()),
    }
}

fn repeated(is_same: bool) -> Result<Settled, Refused> {
    if is_same { Ok(Settled::Before) } else { Err(Refused::OtherResult) }
}

fn bounded(ttl: Duration) -> Duration {
    ttl.clamp(Lease::SHORTEST, Lease::LONGEST)
}

#[cfg(test)]
mod tests;
