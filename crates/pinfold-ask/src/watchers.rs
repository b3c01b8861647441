//! Whether somebody watches what all sessions of a user ask for.
//!
//! `pinfold approvals --watch` connects to each session, but one that has just begun may ask before that. So it holds a
//! lock (fcntl_locking(2)) on a file of the state directory, which no sandbox is granted, and a session that has nobody
//! to ask looks whether it is held. The kernel gives it back whatever ends the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use rustix::fs::{FlockOperation, OFlags, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};

/// The file, in the state directory.
const FILE: &str = "approvals-watched";

/// Somebody who watches what all sessions of the user ask for: as long as this lives, their requests wait.
///
/// A process has one at most: its end gives back all of the process's locks.
#[derive(Debug)]
pub struct Watcher(#[expect(dead_code, reason = "it is locked until it is closed")] File);

impl Watcher {
    /// Begins to watch. The caller then connects to each session that it finds.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn begin(places: &Places) -> io::Result<Self> {
        Places::make_private(&places.state)?;
        let path = places.state.join(FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).at("open", &path)?;
        let lock = || fcntl_lock(&file, FlockOperation::LockShared);
        rustix::io::retry_on_intr(lock).map_err(io::Error::from).at("lock", &path)?;
        Ok(Self(file))
    }
}

/// Who watches all sessions, as one of them sees it.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Option<PathBuf>);

impl Watchers {
    pub(crate) fn of(places: &Places) -> Self {
        Self(Some(places.state.join(FILE)))
    }

    /// Returns whether there is one. What cannot be found out is no reason to wait.
    pub(crate) fn are_there(&self) -> bool {
        // Something else of this name, such as a FIFO, is not waited for.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let Some(file) = self.0.as_ref().and_then(|path| options.open(path).ok()) else {
            return false;
        };
        let excluded = Flock::from(FlockType::WriteLock);
        fcntl_getlk(&file, &excluded).is_ok_and(|held| held.is_some())
    }
}
