//! Results that the queue may accept and that are not published yet: a worker that dies in between leaves a note of each.
//!
//! A note is an empty file `<state>/tasks/unpublished/<task>.<attempt>`. It is on the disk before the queue hears of the
//! result, and goes when the branch has moved, or stays where it is because others use it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_tasks::{Claimed, Queue, QueueError, Store, Task, TaskId};

use crate::engine::LocalEngine;
use crate::repository::Published;

/// The notes of a user.
#[derive(Clone, Debug)]
pub(crate) struct Unpublished {
    directory: PathBuf,
}

impl Unpublished {
    pub(crate) fn of(places: &Places) -> Self {
        Self { directory: places.state.join("tasks").join("unpublished") }
    }

    fn path(&self, task: TaskId, attempt: u32) -> PathBuf {
        self.directory.join(format!("{task}.{attempt}"))
    }

    /// Notes that an attempt has a result.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub(crate) fn note(&self, claimed: &Claimed) -> io::Result<()> {
        Places::make_private(&self.directory)?;
        let path = self.path(claimed.holder.task, claimed.holder.attempt);
        Places::write_private(&path, b"")?;
        self.sync().at("write", &self.directory)
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }

    /// Removes the note of an attempt, if there is one.
    pub(crate) fn forget(&self, task: TaskId, attempt: u32) {
        let _ = fs::remove_file(self.path(task, attempt));
    }

    fn all(&self) -> Vec<(TaskId, u32)> {
        let parse = |path: &Path| {
            let (task, attempt) = path.file_name()?.to_str()?.rsplit_once('.')?;
            Some((task.parse().ok()?, attempt.parse().ok()?))
        };
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        entries.filter_map(|entry| parse(&entry.path())).collect()
    }
}

impl LocalEngine {
    /// Publishes the results of workers that died after the queue had accepted them. `say` takes the task and, if its branch
    /// stays where it is, the reason.
    ///
    /// # Errors
    /// Returns the error of the store.
    pub fn publish_left<S: Store>(
        &self,
        queue: &Queue<S>,
        say: &dyn Fn(TaskId, Option<&str>),
    ) -> Result<(), QueueError> {
        let left = Unpublished::of(self.places());
        for (id, attempt) in left.all() {
            let task = match queue.task(id) {
                // It may be of another queue.
                Err(QueueError::NotFound(_)) => continue,
                task => task?,
            };
            if is_undecided(&task) {
                continue;
            }
            if task.accepted == Some(attempt) {
                let mut attempts = queue.attempts(id)?.into_iter();
                let accepted = attempts.find(|it| it.number == attempt);
                if let Some(completion) = accepted.and_then(|it| it.completion) {
                    match self.try_to_publish(id, attempt, &queue.spec(id)?, &completion) {
                        Ok(Published::Moved) => say(id, None),
                        Ok(Published::Kept(why)) => say(id, Some(&why)),
                        Err(why) => {
                            say(id, Some(&why.to_string()));
                            continue;
                        }
                    }
                }
            }
            left.forget(id, attempt);
        }
        Ok(())
    }
}

/// Returns whether a worker may still report its result.
fn is_undecided(task: &Task) -> bool {
    task.accepted.is_none() && !task.status.is_terminal()
}
