//! What is said of a job in the store: a note for each attempt that was placed.

use pinfold_tasks::{Note, Queue, QueueError, Store, StoreError, TaskId, Transaction};
use serde::{Deserialize, Serialize};

use crate::scheduler::{Job, JobId, JobName, RunId};
use crate::ticket;

const KIND: &str = "placement";
/// How many notes are read at once.
const PAGE: u32 = 1_000;

/// An attempt that was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// What its job is for.
    pub name: JobName,
    /// The scheduler's id; none before the scheduler has answered.
    pub id: Option<JobId>,
    /// Whether the job gets secrets after it has claimed the attempt.
    pub has_secrets: bool,
    /// Whether the job has claimed the attempt.
    pub is_claimed: bool,
    /// The key to seal the secrets for, from the claim until they are sealed.
    pub(crate) key: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stored {
    run: String,
    job: Option<String>,
    has_secrets: bool,
    is_claimed: bool,
    key: Option<String>,
}

impl Placement {
    /// Returns a placement of a job that is yet to be submitted.
    pub(crate) fn new(name: JobName, has_secrets: bool) -> Self {
        Self { name, id: None, has_secrets, is_claimed: false, key: None }
    }

    /// Returns the job, if the scheduler has answered.
    pub(crate) fn job(&self) -> Option<Job> {
        self.id.clone().map(|id| Job { name: self.name, id })
    }

    /// Reads a note. Others may have written it.
    fn read(note: &Note) -> Result<Self, StoreError> {
        let invalid = || invalid_note("its key names no attempt");
        let (task, attempt) = note.key.rsplit_once('-').ok_or_else(invalid)?;
        let task: TaskId = task.parse().map_err(|_| invalid())?;
        let attempt: u32 = attempt.parse().map_err(|_| invalid())?;
        let stored: Stored = serde_json::from_str(&note.content).map_err(invalid_note)?;
        let run: RunId = stored.run.parse().map_err(invalid_note)?;
        Ok(Self {
            name: JobName { task, attempt, run },
            id: stored.job.map(JobId),
            has_secrets: stored.has_secrets,
            is_claimed: stored.is_claimed,
            key: stored.key,
        })
    }

    pub(crate) fn write(&self, transaction: &mut impl Transaction) -> Result<(), StoreError> {
        let stored = Stored {
            run: self.name.run.to_string(),
            job: self.id.as_ref().map(ToString::to_string),
            has_secrets: self.has_secrets,
            is_claimed: self.is_claimed,
            key: self.key.clone(),
        };
        let content = serde_json::to_string(&stored).map_err(invalid_note)?;
        let note = Note { key: self.name.key(), content };
        transaction.set_note(KIND, &note, Some(self.name.task))
    }

    /// Returns the placement of a job, or nothing if the attempt is not placed or another run is.
    ///
    /// # Errors
    /// Returns the store's error.
    pub(crate) fn load(
        transaction: &mut impl Transaction,
        name: &JobName,
    ) -> Result<Option<Self>, StoreError> {
        let key = name.key();
        let Some(content) = transaction.note(KIND, &key)? else { return Ok(None) };
        let placement = Self::read(&Note { key, content })?;
        Ok(Some(placement).filter(|placement| placement.name == *name))
    }

    /// Keeps the placement if its attempt has none. Returns whether it was kept.
    pub(crate) fn reserve<S: Store>(&self, queue: &Queue<S>) -> Result<bool, QueueError> {
        queue.store().write_task(self.name.task, |transaction| {
            let is_free = transaction.note(KIND, &self.name.key())?.is_none();
            // A task may have been removed since it was looked at.
            let is_there = transaction.load(self.name.task)?.is_some();
            if is_free && is_there {
                self.write(transaction)?;
            }
            Ok(is_free && is_there)
        })
    }

    /// Changes the placement, if it is still that of the same run. Returns whether it is.
    pub(crate) fn change<S: Store>(
        name: &JobName,
        queue: &Queue<S>,
        change: impl FnOnce(&mut Self),
    ) -> Result<bool, QueueError> {
        queue.store().write_task(name.task, |transaction| {
            let Some(mut placement) = Self::load(transaction, name)? else { return Ok(false) };
            change(&mut placement);
            placement.write(transaction)?;
            Ok(true)
        })
    }

    /// Removes the placement, if it is still that of the same run and the attempt was not claimed by its job. Returns whether it
    /// was removed.
    pub(crate) fn take(
        transaction: &mut impl Transaction,
        name: &JobName,
    ) -> Result<bool, StoreError> {
        match Self::load(transaction, name)? {
            Some(placement) if !placement.is_claimed => {
                transaction.remove_note(KIND, &name.key())?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Removes the placement of an attempt that is over, and the ticket that nobody took.
    pub(crate) fn remove<S: Store>(name: &JobName, queue: &Queue<S>) -> Result<(), QueueError> {
        queue.store().write_task(name.task, |transaction| {
            if Self::load(transaction, name)?.is_some() {
                transaction.remove_note(KIND, &name.key())?;
                ticket::withdraw(transaction, name)?;
            }
            Ok(())
        })
    }
}

fn invalid_note(reason: impl ToString) -> StoreError {
    StoreError::Invalid { what: "placement", reason: reason.to_string() }
}

/// Returns all placements, and the keys of notes that cannot be read.
///
/// # Errors
/// Returns the store's error.
pub(crate) fn placements<S: Store>(
    queue: &Queue<S>,
) -> Result<(Vec<Placement>, Vec<String>), QueueError> {
    let (mut found, mut invalid) = (Vec::new(), Vec::new());
    let mut after = String::new();
    loop {
        let page: Vec<Note> = queue.store().read(|transaction| {
            transaction.notes(KIND, "", &after, PAGE).map_err(QueueError::from)
        })?;
        for note in &page {
            match Placement::read(note) {
                Ok(placement) => found.push(placement),
                Err(_) => invalid.push(note.key.clone()),
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE as usize => after.clone_from(&last.key),
            _ => return Ok((found, invalid)),
        }
    }
}

/// Returns the placement of a job, or nothing if the attempt is not placed or another run is.
///
/// # Errors
/// Returns the store's error.
pub fn placement<S: Store>(
    queue: &Queue<S>,
    name: &JobName,
) -> Result<Option<Placement>, QueueError> {
    queue.store().read(|transaction| Placement::load(transaction, name).map_err(QueueError::from))
}
