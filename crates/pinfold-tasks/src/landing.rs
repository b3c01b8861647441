//! Whether the result of a task has landed on its base, kept as a note of the task.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::queue::{Queue, QueueError};
use crate::refused::Refused;
use crate::store::{Note, Store, StoreError, Transaction};
use crate::task::Status;
use crate::text::beginning;
use crate::words::words;

/// The kind of the notes.
const KIND: &str = "landing";
/// The longest reason that is kept, in bytes.
const LONGEST_REASON: usize = 1 << 10;
/// How many notes are read at once.
const PAGE: u32 = 1_000;

words! {
    /// How far an accepted result is on its way to its base.
    LandingState, "state of a landing":
    /// Its base has it.
    Landed = "landed",
    /// It could be merged when that was tried last.
    Mergeable = "mergeable",
    /// It can be merged, but something has landed since that may change the same files.
    Outdated = "outdated",
    /// It conflicts with its base.
    Conflicting = "needs-rebase",
    /// Merged, it does not pass the commands that verify it.
    Failing = "merge-fails",
    /// Merged, it changes what tools run by themselves.
    Waiting = "merge-waits",
}

/// How far an accepted result is on its way to its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    pub state: LandingState,
    /// The branch that it lands on.
    pub onto: String,
    /// The commit of that branch when this was found, or the merge that it was moved to.
    pub at: String,
    /// Why it is so, for people.
    pub reason: Option<String>,
}

/// The note of a landing.
#[derive(Serialize, Deserialize)]
struct Stored {
    state: String,
    onto: String,
    at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Landing {
    fn read(content: &str) -> Result<Self, StoreError> {
        let stored: Stored =
            serde_json::from_str(content).map_err(|error| StoreError::invalid("landing", error))?;
        let state = stored.state.parse().map_err(|error| StoreError::invalid("landing", error))?;
        Ok(Self { state, onto: stored.onto, at: stored.at, reason: stored.reason })
    }

    fn write(&self) -> Result<String, StoreError> {
        let reason = self.reason.as_deref();
        let stored = Stored {
            state: self.state.word().to_owned(),
            onto: self.onto.clone(),
            at: self.at.clone(),
            reason: reason.map(|reason| beginning(reason, LONGEST_REASON).to_owned()),
        };
        serde_json::to_string(&stored).map_err(|error| StoreError::invalid("landing", error))
    }
}

impl<S: Store> Queue<S> {
    /// Notes how far the result of a task is. One that has landed stays so.
    ///
    /// # Errors
    /// Returns an error if there is no such task, or if it has no result.
    pub fn set_landing(&self, id: TaskId, landing: &Landing) -> Result<(), QueueError> {
        self.store().write(|transaction| {
            let record = transaction.load(id)?.ok_or(QueueError::NotFound(id))?;
            if record.task.status != Status::Completed {
                return Err(Refused::Invalid("the task has no result that could land").into());
            }
            let key = id.to_string();
            let before = transaction.note(KIND, &key)?.as_deref().map(Landing::read).transpose()?;
            if before.is_some_and(|before| before.state == LandingState::Landed) {
                return Ok(());
            }
            let note = Note { key, content: landing.write()? };
            Ok(transaction.set_note(KIND, &note, Some(id))?)
        })
    }

    /// Returns how far the result of a task is; none if nobody has tried to land it.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn landing(&self, id: TaskId) -> Result<Option<Landing>, QueueError> {
        let note = self.store().read(|transaction| transaction.note(KIND, &id.to_string()))?;
        Ok(note.as_deref().map(Landing::read).transpose()?)
    }

    /// Returns how far all results are that somebody has tried to land.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn landings(&self) -> Result<HashMap<TaskId, Landing>, QueueError> {
        let mut landings = HashMap::new();
        let mut after = String::new();
        loop {
            let page =
                self.store().read(|transaction| transaction.notes(KIND, "", &after, PAGE))?;
            for Note { key, content } in &page {
                let id = key.parse().map_err(|error| StoreError::invalid("landing", error))?;
                landings.insert(id, Landing::read(content)?);
            }
            match page.last() {
                Some(last) if page.len() == PAGE as usize => after = last.key.clone(),
                _ => return Ok(landings),
            }
        }
    }
}
