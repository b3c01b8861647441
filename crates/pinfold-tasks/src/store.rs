//! Where tasks are kept. A store keeps and finds; what may happen to a task is decided by its
//! [`Record`](crate::Record).

mod error;
mod sql;
mod sqlite;

use crate::attempt::Attempt;
use crate::id::{TaskId, Token};
use crate::queue::{Message, NewMessage};
use crate::record::Record;
use crate::task::{Status, Task};
use crate::touch::{GroupLimits, Touch};
use pinfold_content::Timestamp;

pub use error::StoreError;
pub use sql::{Row, SqlDatabase, SqlTransaction, Value};
pub use sqlite::SqliteStore;

/// A store of tasks that several processes may use at once.
pub trait Store {
    /// A transaction of it.
    type Transaction<'a>: Transaction;

    /// Runs work in one transaction that excludes others which write. It takes effect as a whole if the work
    /// succeeds, and not at all otherwise.
    ///
    /// # Errors
    /// Returns the error of the work or of the store. An error of the store's last step leaves open whether the
    /// transaction took effect: code that repeats the work has to be prepared for both.
    fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Self::Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E>;

    /// Runs work that changes nothing but one task, its attempts, its messages and the notes about it, as
    /// [`Store::write`] does. It excludes others that change the same task, and work of [`Store::write`]. Others may
    /// change other tasks at the same time.
    ///
    /// # Errors
    /// Returns the error of the work or of the store, as [`Store::write`] does.
    fn write_task<T, E: From<StoreError>>(
        &self,
        task: TaskId,
        work: impl FnOnce(&mut Self::Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E>;

    /// Runs work that only reads, in one transaction that sees one state.
    ///
    /// # Errors
    /// Returns the error of the work or of the store.
    fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut Self::Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, E>;
}

/// Which tasks to list.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// Those of these states; all if there are none.
    pub statuses: Vec<Status>,
    /// Those that were added before this one. A time alone would skip tasks that were added at the same one.
    pub before: Option<(Timestamp, TaskId)>,
    /// The most tasks to return.
    pub limit: u32,
}

/// What a server of the queue keeps with it: a text of a kind, by a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its key. Notes of a kind are in the order of their keys, byte by byte.
    pub key: String,
    pub content: String,
}

/// What a transaction can do. Each call but [`Transaction::now`] may return any [`StoreError`].
pub trait Transaction {
    /// Returns the time of the transaction, by the store's clock, read after all others that may change the same were
    /// excluded. So times of changes of a task are in the order of the changes.
    fn now(&self) -> Timestamp;

    /// Adds a task with what it asks for, the tasks that it waits for, and what it changes.
    ///
    /// # Errors
    /// Returns an error if its id is taken.
    fn insert(
        &mut self,
        record: &Record,
        spec: &str,
        waits_for: &[TaskId],
        touches: &[Touch],
    ) -> Result<(), StoreError>;

    /// Returns a task with its latest attempt.
    ///
    /// # Errors
    /// Returns the store's error.
    fn load(&mut self, id: TaskId) -> Result<Option<Record>, StoreError>;

    /// Saves a task with its latest attempt.
    ///
    /// # Errors
    /// Returns [`StoreError::Changed`] if somebody else saved it since it was loaded.
    fn save(&mut self, record: &Record) -> Result<(), StoreError>;

    /// Removes a task with its attempts and messages.
    ///
    /// # Errors
    /// Returns the store's error.
    fn remove(&mut self, id: TaskId) -> Result<(), StoreError>;

    /// Returns what a task asks for, as it was inserted.
    ///
    /// # Errors
    /// Returns the store's error.
    fn spec(&mut self, id: TaskId) -> Result<Option<String>, StoreError>;

    /// Returns the queued task that is to be claimed next. One that may change the same files as a task that somebody works
    /// on, or is of a group of which enough are worked on, is left for later.
    ///
    /// # Errors
    /// Returns the store's error.
    fn next_queued(&mut self, groups: &GroupLimits) -> Result<Option<TaskId>, StoreError>;

    /// Returns queued tasks in the order in which they are to be claimed, also those that would be left for later, and how
    /// many attempts each had.
    ///
    /// # Errors
    /// Returns the store's error.
    fn queued(&mut self, limit: u32) -> Result<Vec<(TaskId, u32)>, StoreError>;

    /// Returns whether a task says what it changes, or is of a group. A task without either keeps no other from being worked
    /// on, and no other keeps it. This never changes after a task was added.
    ///
    /// # Errors
    /// Returns the store's error.
    fn has_touches(&mut self, id: TaskId) -> Result<bool, StoreError>;

    /// Returns a task that somebody works on and that keeps this one from being worked on.
    ///
    /// # Errors
    /// Returns the store's error.
    fn overlapping(
        &mut self,
        id: TaskId,
        groups: &GroupLimits,
    ) -> Result<Option<TaskId>, StoreError>;

    /// Returns the task that an attempt with this token belongs to.
    ///
    /// # Errors
    /// Returns the store's error.
    fn with_token(&mut self, token: Token) -> Result<Option<TaskId>, StoreError>;

    /// Returns tasks that change by time alone at this time or before it, the most overdue first.
    ///
    /// # Errors
    /// Returns the store's error.
    fn due(&mut self, now: Timestamp, limit: u32) -> Result<Vec<TaskId>, StoreError>;

    /// Returns the tasks that wait for this one.
    ///
    /// # Errors
    /// Returns the store's error.
    fn waiting_for(&mut self, id: TaskId) -> Result<Vec<TaskId>, StoreError>;

    /// Returns the attempts at a task, the first one first.
    ///
    /// # Errors
    /// Returns the store's error.
    fn attempts(&mut self, id: TaskId) -> Result<Vec<Attempt>, StoreError>;

    /// Returns tasks, the newest first.
    ///
    /// # Errors
    /// Returns the store's error.
    fn list(&mut self, listing: &Listing) -> Result<Vec<Task>, StoreError>;

    /// Adds messages of an attempt, numbered from the next number on without gaps.
    ///
    /// # Errors
    /// Returns the store's error.
    fn append(
        &mut self,
        id: TaskId,
        attempt: u32,
        messages: &[NewMessage],
    ) -> Result<(), StoreError>;

    /// Returns messages of an attempt whose numbers are not below `from`.
    ///
    /// # Errors
    /// Returns the store's error.
    fn messages(
        &mut self,
        id: TaskId,
        attempt: u32,
        from: u64,
        limit: u32,
    ) -> Result<Vec<Message>, StoreError>;

    /// Returns a note.
    ///
    /// # Errors
    /// Returns the store's error.
    fn note(&mut self, kind: &str, key: &str) -> Result<Option<String>, StoreError>;

    /// Keeps a note, in place of one with the same key. One about a task is removed with it.
    ///
    /// # Errors
    /// Returns the store's error.
    fn set_note(&mut self, kind: &str, note: &Note, task: Option<TaskId>)
    -> Result<(), StoreError>;

    /// Removes a note, if there is one.
    ///
    /// # Errors
    /// Returns the store's error.
    fn remove_note(&mut self, kind: &str, key: &str) -> Result<(), StoreError>;

    /// Returns notes whose keys begin with a text and come after `after`.
    ///
    /// # Errors
    /// Returns the store's error.
    fn notes(
        &mut self,
        kind: &str,
        beginning: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Note>, StoreError>;
}
