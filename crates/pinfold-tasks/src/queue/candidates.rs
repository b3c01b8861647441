//! Tasks that are placed before they are claimed: which ones there are, and claims of one attempt at one of them.

use super::steps::{again, begin, load, pass_time, spec};
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
    /// Returns those that could be claimed now of the first `limit` queued tasks, in the order in which they are claimed. Makes
    /// time pass as [`Self::sweep`] does, and ends tasks that nobody can work on.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn candidates(&self, limit: u32) -> Result<Vec<Candidate>, QueueError> {
        self.store.write(|transaction| {
            let now = transaction.now();
            pass_time(transaction, now, SWEPT)?;
            let mut candidates = Vec::new();
            for task in transaction.queued(limit)? {
                let mut record = load(transaction, task)?;
                match spec(transaction, task) {
                    Ok(spec) => {
                        if transaction.overlapping(task, &self.groups)?.is_none() {
                            let attempt = record.task.attempts.saturating_add(1);
                            candidates.push(Candidate { task, attempt, spec });
                        }
                    }
                    Err(error @ (QueueError::Spec(_) | QueueError::NotFound(_))) => {
                        record.refuse(Failure::new(code::INVALID_TASK, error.to_string()), now);
                        transaction.save(&record)?;
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(candidates)
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
        admit: impl FnOnce(&mut S::Transaction<'_>) -> Result<bool, StoreError>,
    ) -> Result<Option<Claimed>, QueueError> {
        self.store.write(|transaction| {
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
        })
    }
}
