//! What requests of a session are decided and run by.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pinfold_ask::Desk;
use pinfold_git::known::{Known, bare};
use pinfold_host::audit::Audit;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::rate_limit::Pace;
use pinfold_policy::settings::Settings;

use crate::path_map::PathMap;
use crate::same::Same;

/// Questions of a session that were not answered with yes, after which no more are asked.
const MOST_UNAPPROVED: usize = 100;

/// What requests of a session are decided and run by.
pub struct Context {
    /// The session's settings.
    pub settings: Settings,
    /// Where commands may run.
    pub path_map: PathMap,
    /// Where the user is asked.
    pub desk: Arc<Desk>,
    /// The session's log.
    pub audit: Arc<Audit>,
    /// Where pinfold keeps its files.
    pub places: Places,
    /// What starts programs on the host, without those of directories that the sandbox can write to.
    pub launcher: Launcher,
    /// What kept rules are for: the git directory, or the workspace.
    pub repository: PathBuf,
    /// The repositories that were there at the start.
    pub known: Vec<Known>,
    /// Where requests have their files, in the session's private directory.
    pub place: PathBuf,
    /// What was asked and approved before.
    pub so_far: SoFar,
}

/// What has been asked and approved so far.
#[derive(Default)]
pub struct SoFar {
    approved: Mutex<Vec<Same>>,
    pace: Mutex<Pace>,
    unapproved: AtomicUsize,
}

impl Context {
    /// Returns whether another request can be recorded.
    pub(crate) fn may_go_on(&self) -> bool {
        self.so_far.pace.lock().step().is_some()
    }

    /// Returns whether a user is asked once more: a sandbox could bury one in questions.
    pub(crate) fn may_ask(&self) -> bool {
        self.so_far.unapproved.load(Ordering::Relaxed) < MOST_UNAPPROVED
    }

    /// Counts a question that was not answered with yes.
    pub(crate) fn count_unapproved(&self) {
        self.so_far.unapproved.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether this was approved for the session.
    pub(crate) fn is_approved(&self, same: &Same) -> bool {
        let approved = self.so_far.approved.lock();
        approved.iter().any(|one| one.covers(same))
    }

    /// Approves this for the session.
    pub(crate) fn approve(&self, same: Same) {
        self.so_far.approved.lock().push(same);
    }

    /// Returns a directory for a request, empty.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub(crate) fn place_of(&self, id: u64) -> io::Result<PathBuf> {
        Places::make_private(&self.place)?;
        let place = self.place.join(id.to_string());
        std::fs::create_dir(&place)?;
        Ok(place)
    }

    /// Returns a git directory without anything that the sandbox wrote, for programs on the host that
    /// run git in this directory.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(crate) fn bare(&self, id: u64, cwd: &Path) -> io::Result<PathBuf> {
        bare(&self.known, cwd, &self.place_of(id)?)
    }

    /// Removes what a request has left.
    pub(crate) fn clear(&self, id: u64) {
        // A request that made none leaves none; the rest goes with the session.
        let _ = std::fs::remove_dir_all(self.place.join(id.to_string()));
    }
}
