//! Tasks that are placed before they are claimed: which ones there are, and claims of one attempt at one of them.

use super::steps::{again, begin, load, spec};
use super::{Claimed, Queue, QueueError};
use crate::failure::{Failure, code};
use crate::id::TaskId;
use crate::record::Claim;
use crate::refused::Refused;
use crate::spec::TaskSpec;
use crate::store::{Store, StoreError, Transaction};
use crate::task::Status;

/// How many tasks [`Queue::candidates`] makes time pass for.
const SWEPT: u32 = 100;

/// What is queued.
struct Look {
    /// Whether time changes something by now.
    is_due: bool,
    candidates: Vec<Candidate>,
    /// Tasks that nobody can work on.
    invalid: Vec<TaskId>,
}

/// A task that could be claimed now.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub task: TaskId,
    /// The number of its next attempt.
    pub attempt: u32,
    /// What it asks for.
    pub spec: TaskSpec,
}

impl<S: Store> Queue<S> {
    /// Returns at most `most` tasks that could be claimed now, in the order in which they are claimed: of the first `limit`
    /// queued ones, without those whose next attempt is placed. Makes time pass as [`Self::sweep`] does, and ends tasks that
    /// nobody can work on.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn candidates(
        &self,
        limit: u32,
        most: usize,
        is_placed: &dyn Fn(TaskId, u32) -> bool,
    ) -> Result<Vec<Candidate>, QueueError> {
        let mut look = self.look(limit, most, is_placed)?;
        if look.is_due {
            self.sweep(SWEPT)?;
            look = self.look(limit, most, is_placed)?;
        }
        for task in look.invalid {
            self.refuse_invalid(task)?;
        }
        Ok(look.candidates)
    }

    /// Reads what is queued. This excludes nobody: whether a task can be claimed is decided when it is claimed.
    fn look(
        &self,
        limit: u32,
        most: usize,
        is_placed: &dyn Fn(TaskId, u32) -> bool,
    ) -> Result<Look, QueueError> {
        self.store.read(|transaction| {
            let is_due = !transaction.due(transaction.now(), 1)?.is_empty();
            let mut look = Look { is_due, candidates: Vec::new(), invalid: Vec::new() };
            for (task, attempts) in transaction.queued(limit)? {
                let attempt = attempts.saturating_add(1);
                if look.candidates.len() == most {
                    break;
                }
                if is_placed(task, attempt) {
                    continue;
                }
                match spec(transaction, task) {
                    Ok(spec) => {
                        if transaction.overlapping(task, &self.groups)?.is_none() {
                            look.candidates.push(Candidate { task, attempt, spec });
                        }
                    }
                    Err(QueueError::Spec(_) | QueueError::NotFound(_)) => look.invalid.push(task),
                    Err(error) => return Err(error),
                }
            }
            Ok(look)
        })
    }

    /// Ends a queued task that nobody can work on.
    fn refuse_invalid(&self, task: TaskId) -> Result<(), QueueError> {
        self.store.write_task(task, |transaction| {
            let now = transaction.now();
            // It may have been removed since it was looked at.
            let Some(mut record) = transaction.load(task)? else { return Ok(()) };
            match spec(transaction, task) {
                Err(error @ (QueueError::Spec(_) | QueueError::NotFound(_)))
                    if record.task.status == Status::Queued =>
                {
                    record.refuse(Failure::new(code::INVALID_TASK, error.to_string()), now);
                    Ok(transaction.save(&record)?)
                }
                Ok(_) | Err(QueueError::Spec(_) | QueueError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    /// Claims the attempt of this number at a task, if `admit` allows it in the same transaction; none if it does not.
    ///
    /// # Errors
    /// Returns an error if this attempt is not the next one, and those of [`Self::claim_task`].
    pub fn claim_attempt(
        &self,
        id: TaskId,
        number: u32,
        claim: &Claim,
        admit: impl Fn(&mut S::Transaction<'_>) -> Result<bool, StoreError>,
    ) -> Result<Option<Claimed>, QueueError> {
        let claim_it = |transaction: &mut S::Transaction<'_>| -> Result<_, QueueError> {
            match transaction.with_token(claim.token)? {
                Some(found) if found == id => return again(transaction, id, claim.token).map(Some),
                Some(_) => return Err(Refused::NotHolder.into()),
                None => {}
            }
            let mut record = load(transaction, id)?;
            if record.task.attempts.checked_add(1) != Some(number) {
                return Err(Refused::NotNext(number).into());
            }
            if record.task.status == Status::Queued
                && let Some(other) = transaction.overlapping(id, &self.groups)?
            {
                return Err(Refused::Overlaps(other).into());
            }
            let spec = spec(transaction, id)?;
            if !admit(transaction)? {
                return Ok(None);
            }
            begin(transaction, &mut record, spec, claim).map(Some)
        };
        // Only a task that says what it changes, or is of a group, can be in the way of others.
        let apart = self.store.write_task(id, |transaction| {
            let is_alone = !transaction.has_touches(id)?;
            is_alone.then(|| claim_it(transaction)).transpose()
        })?;
        match apart {
            Some(claimed) => Ok(claimed),
            None => self.store.write(claim_it),
        }
    }
}
