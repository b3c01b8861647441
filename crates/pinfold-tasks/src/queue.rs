//! The queue: every operation is one transaction of a store.

mod candidates;
mod error;
mod inquiries;
mod message;
mod read;
mod steps;

use std::time::Duration;

use crate::attempt::Completion;
use crate::failure::{Failure, code};
use crate::file::{from_stored, to_stored};
use crate::id::{TaskId, Token};
use crate::record::{Claim, Heartbeat, Record, Settled};
use crate::refused::Refused;
use crate::spec::TaskSpec;
use crate::store::{Store, StoreError, Transaction};
use crate::task::{Status, Task};
use crate::touch::{GroupLimits, Touch};
use pinfold_content::Timestamp;

pub use candidates::Candidate;
pub use error::QueueError;
pub use message::{Message, NewMessage};
pub use read::ListPage;

use steps::{again, begin, check_output, load, new_task, pass_time, spec, waits_for_removed};

/// How many tasks a claim makes time pass for. It is enough to keep up: each claim makes at most one task due later.
const SWEPT_BY_A_CLAIM: u32 = 4;

/// A queue of tasks in a store. Its operations may be repeated when their answers are lost.
#[derive(Debug)]
pub struct Queue<S> {
    store: S,
    groups: GroupLimits,
}

/// A task that is to be added.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its id. The same one twice is an error, so a repetition adds nothing.
    pub id: TaskId,
    /// What it asks for.
    pub spec: TaskSpec,
    /// When it expires if nobody has begun it.
    pub expires_after: Option<Duration>,
}

/// What a worker proves with that it holds an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    pub task: TaskId,
    /// The attempt's number.
    pub attempt: u32,
    /// The token of the claim.
    pub token: Token,
}

/// A task that a worker has claimed.
#[derive(Clone, Debug)]
pub struct Claimed {
    /// What the worker holds the attempt with.
    pub holder: Holder,
    /// What the task asks for.
    pub spec: TaskSpec,
    /// How long the lease lasts from now on.
    pub lasts: Duration,
    /// What the task is called where it comes from; none for a task of the queue.
    pub provenance: Option<Provenance>,
}

/// What a server calls a task that it offers. Entries that are written in its attempts are known by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// The task's id there.
    pub task: TaskId,
    /// The task's type.
    pub kind: String,
    /// The id that tasks of one piece of work share.
    pub correlation: Option<String>,
    /// The id of the diary for its entries.
    pub diary: Option<String>,
}

impl<S: Store> Queue<S> {
    /// Returns the queue in a store.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self { store, groups: GroupLimits::default() }
    }

    /// Returns the queue, for workers that work on so many tasks of groups at once.
    #[must_use]
    pub fn with_groups(self, groups: GroupLimits) -> Self {
        Self { groups, ..self }
    }

    /// Returns the store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Adds a task. It waits for those that it depends on and that are not completed.
    ///
    /// # Errors
    /// Returns an error for a task that its own file could not ask for, whose id is taken, or that depends on one
    /// that does not exist.
    pub fn add(&self, draft: &Draft) -> Result<Task, QueueError> {
        let stored = to_stored(&draft.spec);
        // One reader decides what a task may ask for, wherever it comes from.
        let spec = from_stored(&stored).map_err(QueueError::Spec)?;
        self.store.write(|transaction| {
            let now = transaction.now();
            let mut waits_for = Vec::new();
            for needs in &spec.depends {
                let needed = transaction.load(*needs)?.ok_or(Refused::UnknownDependency(*needs))?;
                if needed.task.status != Status::Completed && !waits_for.contains(needs) {
                    waits_for.push(*needs);
                }
            }
            let mut task = new_task(draft, &spec, now);
            if !waits_for.is_empty() {
                task.status = Status::Waiting;
                task.waits_for = u32::try_from(waits_for.len()).unwrap_or(u32::MAX);
            }
            let touches = Touch::of(&spec);
            transaction.insert(&Record::new(task.clone()), &stored, &waits_for, &touches)?;
            Ok(task)
        })
    }

    /// Claims the task that is to be worked on next; none if no task is queued. A repetition with the same token
    /// returns the same attempt, as long as its lease lasts.
    ///
    /// # Errors
    /// Returns an error if an attempt with this token is over, or if the store fails.
    pub fn claim(&self, claim: &Claim) -> Result<Option<Claimed>, QueueError> {
        self.store.write(|transaction| {
            if let Some(id) = transaction.with_token(claim.token)? {
                return again(transaction, id, claim.token).map(Some);
            }
            let now = transaction.now();
            pass_time(transaction, now, SWEPT_BY_A_CLAIM)?;
            while let Some(id) = transaction.next_queued(&self.groups)? {
                let mut record = load(transaction, id)?;
                record.pass_time(now);
                if record.task.status == Status::Queued {
                    match spec(transaction, id) {
                        Ok(spec) => return begin(transaction, &mut record, spec, claim).map(Some),
                        // Others may write to a team's store. The tasks behind it must not wait for ever.
                        Err(error @ (QueueError::Spec(_) | QueueError::NotFound(_))) => {
                            record.refuse(Failure::new(code::INVALID_TASK, error.to_string()), now);
                        }
                        Err(error) => return Err(error),
                    }
                }
                // It is no longer the next one: it has expired, or nobody can work on it.
                transaction.save(&record)?;
            }
            Ok(None)
        })
    }

    /// Claims one task.
    ///
    /// # Errors
    /// Returns an error if there is no such task, if it is not queued, or if somebody works on one that may change the
    /// same files.
    pub fn claim_task(&self, id: TaskId, claim: &Claim) -> Result<Claimed, QueueError> {
        self.store.write(|transaction| {
            match transaction.with_token(claim.token)? {
                Some(found) if found == id => return again(transaction, id, claim.token),
                Some(_) => return Err(Refused::NotHolder.into()),
                None => {}
            }
            let mut record = load(transaction, id)?;
            if record.task.status == Status::Queued
                && let Some(other) = transaction.overlapping(id, &self.groups)?
            {
                return Err(Refused::Overlaps(other).into());
            }
            let spec = spec(transaction, id)?;
            begin(transaction, &mut record, spec, claim)
        })
    }

    /// Renews the lease on an attempt, or says that the task was cancelled. The first heartbeat starts the attempt.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt any more.
    pub fn heartbeat(
        &self,
        holder: &Holder,
        ttl: Option<Duration>,
    ) -> Result<Heartbeat, QueueError> {
        self.change(holder.task, |record, now| {
            record.heartbeat(holder.attempt, holder.token, ttl, now)
        })
    }

    /// Accepts the result of an attempt, and queues the tasks that waited for it.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt any more, or has not started it.
    pub fn complete(
        &self,
        holder: &Holder,
        completion: &Completion,
    ) -> Result<Settled, QueueError> {
        check_output(&completion.output)?;
        let settle = |transaction: &mut S::Transaction<'_>, waiting: Vec<TaskId>| {
            let now = transaction.now();
            let mut record = load(transaction, holder.task)?;
            let completion = completion.clone();
            let settled = record.complete(holder.attempt, holder.token, completion, now)?;
            if settled == Settled::Now {
                transaction.save(&record)?;
                for id in waiting {
                    let mut waiting = load(transaction, id)?;
                    waiting.dependency_completed(now);
                    transaction.save(&waiting)?;
                }
            }
            Ok::<_, QueueError>(settled)
        };
        // None is added to those that wait for it while this lasts: what adds tasks excludes all.
        let apart = self.store.write_task(holder.task, |transaction| {
            let waiting = transaction.waiting_for(holder.task)?;
            let is_alone = waiting.is_empty();
            is_alone.then(|| settle(transaction, waiting)).transpose()
        })?;
        match apart {
            Some(settled) => Ok(settled),
            None => self.store.write(|transaction| {
                let waiting = transaction.waiting_for(holder.task)?;
                settle(transaction, waiting)
            }),
        }
    }

    /// Accepts that an attempt failed. The task is queued again while attempts are left, unless the failure is said
    /// not to be worth a repetition.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt any more, or has not started it.
    pub fn fail(&self, holder: &Holder, failure: &Failure) -> Result<Settled, QueueError> {
        self.change(holder.task, |record, now| {
            record.fail(holder.attempt, holder.token, failure.clone(), now)
        })
    }

    /// Takes a task back from a worker that ends. It is queued again while attempts are left.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt any more, or has not started it.
    pub fn abort(&self, holder: &Holder, reason: &str) -> Result<Settled, QueueError> {
        self.change(holder.task, |record, now| {
            record.abort(holder.attempt, holder.token, reason, now)
        })
    }

    /// Cancels a task. A worker that has it learns of it by its next heartbeat.
    ///
    /// # Errors
    /// Returns an error if there is no such task, or if it has ended.
    pub fn cancel(&self, id: TaskId, reason: &str) -> Result<(), QueueError> {
        self.change(id, |record, now| record.cancel(reason, now))
    }

    /// Queues a task again that failed, expired or was cancelled.
    ///
    /// # Errors
    /// Returns an error if there is no such task, if it is in another state, or if it waits for one that was removed.
    pub fn retry(&self, id: TaskId) -> Result<(), QueueError> {
        self.store.write(|transaction| {
            let now = transaction.now();
            let mut record = load(transaction, id)?;
            record.retry(now)?;
            if waits_for_removed(transaction, &record.task)? {
                return Err(Refused::DependencyRemoved.into());
            }
            Ok(transaction.save(&record)?)
        })
    }

    /// Removes a task that has ended, with all that is kept of it.
    ///
    /// # Errors
    /// Returns an error if there is no such task, if it has not ended, or if others wait for it.
    pub fn remove(&self, id: TaskId) -> Result<(), QueueError> {
        self.store.write(|transaction| {
            let now = transaction.now();
            let mut record = load(transaction, id)?;
            record.pass_time(now);
            if !record.task.status.is_terminal() {
                return Err(Refused::StillActive(record.task.status).into());
            }
            let mut waiting = 0;
            for id in transaction.waiting_for(id)? {
                let status = load(transaction, id)?.task.status;
                waiting += u64::from(!status.is_terminal());
            }
            match waiting {
                0 => Ok(transaction.remove(id)?),
                waiting => Err(Refused::Needed(waiting).into()),
            }
        })
    }

    /// Makes time pass for tasks that nobody asks about: attempts whose workers were lost time out, and tasks expire.
    /// Returns how many changed, at most `limit`.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn sweep(&self, limit: u32) -> Result<usize, QueueError> {
        self.store.write(|transaction| {
            let now = transaction.now();
            pass_time(transaction, now, limit)
        })
    }

    /// Keeps messages of a running attempt, numbered without gaps from 0.
    ///
    /// # Errors
    /// Returns an error if the worker does not hold the attempt any more, or if there are too many messages or one
    /// is too long.
    pub fn append(&self, holder: &Holder, messages: &[NewMessage]) -> Result<(), QueueError> {
        NewMessage::check(messages)?;
        self.store.write_task(holder.task, |transaction| {
            let now = transaction.now();
            let mut record = load(transaction, holder.task)?;
            record.holds(holder.attempt, holder.token, now)?;
            Ok(transaction.append(holder.task, holder.attempt, messages)?)
        })
    }

    /// Loads a task, has it changed, and saves it.
    fn change<T>(
        &self,
        id: TaskId,
        decide: impl FnOnce(&mut Record, Timestamp) -> Result<T, Refused>,
    ) -> Result<T, QueueError> {
        self.store.write_task(id, |transaction| {
            let now = transaction.now();
            let mut record = load(transaction, id)?;
            let decided = decide(&mut record, now)?;
            transaction.save(&record)?;
            Ok(decided)
        })
    }
}

impl From<StoreError> for QueueError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
