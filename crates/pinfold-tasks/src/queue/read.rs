//! What is asked of a queue without a change.

use super::steps::{load, spec};
use super::{Message, Queue, QueueError};
use crate::attempt::{Attempt, Completion};
use crate::id::TaskId;
use crate::spec::TaskSpec;
use crate::store::{Listing, Store, Transaction};
use crate::task::Task;
use pinfold_content::Timestamp;

/// The most tasks and messages of one answer.
const MOST_LISTED: u32 = 1_000;

/// Tasks, and where the next ones begin.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The tasks, the newest first.
    pub tasks: Vec<Task>,
    /// What to list [before](crate::Listing::before) for more; none if there are no more.
    pub next: Option<(Timestamp, TaskId)>,
}

impl<S: Store> Queue<S> {
    /// Returns messages of an attempt whose numbers are not below `from`.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn messages(
        &self,
        task: TaskId,
        attempt: u32,
        from: u64,
    ) -> Result<Vec<Message>, QueueError> {
        self.store.read(|transaction| {
            load(transaction, task)?;
            Ok(transaction.messages(task, attempt, from, MOST_LISTED)?)
        })
    }

    /// Returns a task.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn task(&self, id: TaskId) -> Result<Task, QueueError> {
        self.store.read(|transaction| Ok(load(transaction, id)?.task))
    }

    /// Returns what a task asks for.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn spec(&self, id: TaskId) -> Result<TaskSpec, QueueError> {
        self.store.read(|transaction| spec(transaction, id))
    }

    /// Returns what a task asks for and its result, if it is that of this attempt.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn result_of(
        &self,
        id: TaskId,
        attempt: u32,
    ) -> Result<Option<(TaskSpec, Completion)>, QueueError> {
        self.store.read(|transaction| {
            let record = load(transaction, id)?;
            let accepted = record.attempt.filter(|_| record.task.accepted == Some(attempt));
            let result = accepted.and_then(|attempt| attempt.completion);
            result.map(|result| Ok((spec(transaction, id)?, result))).transpose()
        })
    }

    /// Returns the attempts at a task, the first one first.
    ///
    /// # Errors
    /// Returns an error if there is no such task.
    pub fn attempts(&self, id: TaskId) -> Result<Vec<Attempt>, QueueError> {
        self.store.read(|transaction| {
            load(transaction, id)?;
            Ok(transaction.attempts(id)?)
        })
    }

    /// Lists tasks, the newest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn list(&self, listing: &Listing) -> Result<ListPage, QueueError> {
        let limit = listing.limit.clamp(1, MOST_LISTED);
        // One more says whether there are more.
        let listing = Listing { limit: limit + 1, ..listing.clone() };
        let mut tasks = self.store.read(|transaction| transaction.list(&listing))?;
        let is_more = tasks.len() > limit as usize;
        tasks.truncate(limit as usize);
        let next = tasks.last().filter(|_| is_more).map(|task| (task.added_at, task.id));
        Ok(ListPage { tasks, next })
    }
}
