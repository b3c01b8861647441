//! The queue of the user's tasks, wherever it is.

use std::path::Path;

use pinfold_attempt::Admission;
use pinfold_host::directories::Places;
use pinfold_session::prepare::SettingsFiles;
use pinfold_tasks::{GroupLimits, Queue, QueueError};
use pinfold_tasks_postgres::AnyStore;

use crate::exit::Failure;

/// The user's queue.
pub(crate) type TaskQueue = Queue<AnyStore>;

/// Opens the user's queue.
///
/// # Errors
/// Returns an error for settings that are wrong, or a store that cannot be used.
pub(crate) fn open(places: &Places) -> Result<TaskQueue, Failure> {
    let settings = SettingsFiles::read(places)?.own()?;
    let database = settings.task_database;
    let store = AnyStore::open(places, database.as_ref().map(|database| database.value.as_str()))
        .map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    Ok(Queue::new(store).with_groups(GroupLimits::new(settings.group_concurrency)))
}

/// Returns what the tasks of a queue may ask this machine for; none if they are the user's own. `here` is a repository that
/// they may work in.
///
/// # Errors
/// Returns an error for settings that are wrong.
pub(crate) fn admission(
    queue: &TaskQueue,
    places: &Places,
    here: Option<&Path>,
) -> Result<Option<Admission>, Failure> {
    match queue.store() {
        AnyStore::Local(_) => Ok(None),
        AnyStore::Shared(..) => {
            let rules = SettingsFiles::read(places)?.own()?.task_rules;
            Ok(Some(Admission::new(rules, here, &places.home)))
        }
    }
}

impl From<QueueError> for Failure {
    fn from(error: QueueError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}
