//! The queue of the user's tasks, wherever it is.

use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_attempt::Admission;
use pinfold_host::directories::Places;
use pinfold_session::prepare::SettingsFiles;
use pinfold_tasks::{GroupLimits, Queue, QueueError};
use pinfold_tasks_postgres::{AnyStore, OpenError};

use crate::exit::Failure;

/// How often a store is asked that is away.
const LOOK: Duration = Duration::from_secs(1);

/// The user's queue.
pub(crate) type TaskQueue = Queue<AnyStore>;

/// Opens the user's queue.
///
/// # Errors
/// Returns an error for settings that are wrong, or a store that cannot be used.
pub(crate) fn open(places: &Places) -> Result<TaskQueue, Failure> {
    open_within(places, Duration::ZERO)
}

/// Opens the user's queue. A store that is away is waited for so long.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn open_within(places: &Places, patience: Duration) -> Result<TaskQueue, Failure> {
    let settings = SettingsFiles::read(places)?.own()?;
    let database = settings.task_database;
    let named = database.as_ref().map(|database| database.value.as_str());
    let end = Instant::now() + patience;
    let store = loop {
        match AnyStore::open(places, named) {
            Ok(store) => break store,
            Err(OpenError::Store(error)) if error.is_transient() && Instant::now() < end => {
                std::thread::sleep(LOOK);
            }
            Err(error) => {
                let hint = error.hint();
                return Err(Failure::new(error).hint(hint));
            }
        }
    };
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
