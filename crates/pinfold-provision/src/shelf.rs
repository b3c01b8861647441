//! Directories that are made once, by one process, and are either whole or not there.
//!
//! ```text
//! <id>/<summary>      written last, so its presence says that the rest is whole
//! <id>.lock           held while it is made
//! <id>.tmp-<pid>/     where it is made; worthless once nobody holds the lock
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pinfold_trees::remove_tree;

use crate::lock::Lock;
use crate::steps::is_disk_full;

/// Between two attempts to make what another process could not, or holds and nobody can use.
const STEP: std::time::Duration = std::time::Duration::from_millis(100);

/// A directory of such directories; one user's.
#[derive(Debug, Clone)]
pub struct Shelf {
    dir: PathBuf,
    summary: &'static str,
}

/// Why something could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShelfError {
    /// A file could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// No space or quota left. What was there of it has been removed.
    #[error(
        "no space left in {} while {doing}; free some, or set XDG_CACHE_HOME to another disk",
        dir.display()
    )]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        dir: PathBuf,
    },
    /// Somebody else could write there.
    #[error(
        "{} belongs to another user, who could change its content; set XDG_CACHE_HOME to a \
         directory of your own",
        dir.display()
    )]
    NotOwn { dir: PathBuf },
}

/// The ids that pruning met.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Removed.
    pub removed: Vec<String>,
    /// In use, and kept.
    pub in_use: Vec<String>,
}

impl Shelf {
    /// Returns the shelf in a directory; `summary` names the file that says that one is whole.
    #[must_use]
    pub fn new(dir: PathBuf, summary: &'static str) -> Self {
        Self { dir, summary }
    }

    /// Returns its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns where what has this id lies, if it is whole, with its summary.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<(PathBuf, Vec<u8>)> {
        let home = self.dir.join(id);
        let summary = fs::read(home.join(self.summary)).ok()?;
        Some((home, summary))
    }

    /// Returns the ids of everything that is whole.
    ///
    /// # Errors
    /// Returns an error for a directory that is there and cannot be read.
    pub fn ids(&self) -> Result<Vec<String>, ShelfError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed("read", &self.dir, error)),
        };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<String> = names.filter(|id| self.find(id).is_some()).collect();
        ids.sort();
        Ok(ids)
    }

    /// Makes what has this id, unless it is there or another process is making it: then `waiting`
    /// is called, and that process's is returned. `usable` says whether a summary is of use; `make`
    /// fills an empty directory and returns the summary. As long as the lock is held, nobody
    /// removes it.
    ///
    /// # Errors
    /// Returns [`ShelfError`], or what `make` says. What a failed attempt left is removed; what a killed
    /// one left is removed by the next call.
    pub fn ensure<T, E: From<ShelfError>>(
        &self,
        id: &str,
        waiting: &dyn Fn(),
        usable: impl Fn(&Path, &[u8]) -> Option<T>,
        make: impl FnOnce(&Path) -> Result<Vec<u8>, E>,
    ) -> Result<(T, Lock), E> {
        if let Some(held) = self.hold(id, &usable)? {
            return Ok(held);
        }
        let mut is_first = true;
        let lock = loop {
            if let Some(lock) = self.try_lock(id)? {
                break lock;
            }
            if std::mem::take(&mut is_first) {
                waiting();
            } else {
                // It was not made, or it is of no use and somebody holds it.
                std::thread::sleep(STEP);
            }
            // The process that makes it has the lock alone until it is there, and a share of it from then on, perhaps for days.
            if let Some(held) = self.share(id, &usable)? {
                return Ok(held);
            }
        };
        let found = self.find(id).and_then(|(home, summary)| usable(&home, &summary));
        if found.is_none() {
            self.sweep(Some(id));
            let staging = self.dir.join(format!("{id}.tmp-{}", std::process::id()));
            fs::create_dir(&staging).map_err(|error| self.failed("create", &staging, error))?;
            let made = make(&staging).and_then(|summary| Ok(self.publish(id, &staging, &summary)?));
            if let Err(error) = made {
                // The first error is the one to tell; what this leaves, the next start sweeps.
                remove_tree(&staging).unwrap_or_default();
                return Err(error);
            }
        }
        drop(lock);
        self.hold(id, &usable)?.ok_or_else(|| {
            let home = self.dir.join(id);
            self.failed("use", &home, io::Error::other("it is not what was made")).into()
        })
    }

    /// Returns what has this id, if it is there and of use. As long as the lock is held, nobody removes
    /// it.
    ///
    /// # Errors
    /// Returns an error for a directory that is not the caller's own, or the error of `flock(2)`.
    pub fn hold<T>(
        &self,
        id: &str,
        usable: impl Fn(&Path, &[u8]) -> Option<T>,
    ) -> Result<Option<(T, Lock)>, ShelfError> {
        self.open()?;
        if self.find(id).is_none() {
            return Ok(None);
        }
        self.share(id, usable)
    }

    /// Waits for a process that makes or removes it, and looks for it then.
    fn share<T>(
        &self,
        id: &str,
        usable: impl Fn(&Path, &[u8]) -> Option<T>,
    ) -> Result<Option<(T, Lock)>, ShelfError> {
        let path = self.dir.join(format!("{id}.lock"));
        let shared = Lock::share(&path).map_err(|error| self.failed("lock", &path, error))?;
        let found = self.find(id).and_then(|(home, summary)| usable(&home, &summary));
        Ok(found.map(|found| (found, shared)))
    }

    /// Removes what has this id, unless a process makes or holds it just now; whether it did.
    ///
    /// # Errors
    /// Returns the error of `unlink(2)`.
    pub fn remove(&self, id: &str) -> Result<bool, ShelfError> {
        let path = self.dir.join(format!("{id}.lock"));
        let home = self.dir.join(id);
        let failed = |error| self.failed("remove", &home, error);
        let Some(_lock) = Lock::try_take(&path).map_err(failed)? else { return Ok(false) };
        // Not found by anybody from here on, even if this is cut short.
        let gone = self.dir.join(format!("{id}.tmp-{}", std::process::id()));
        fs::rename(&home, &gone).map_err(failed)?;
        remove_tree(&gone).map_err(failed)?;
        Ok(true)
    }

    /// Returns whether a process makes or holds what has this id.
    ///
    /// # Errors
    /// Returns the error of `flock(2)`.
    pub fn is_held(&self, id: &str) -> Result<bool, ShelfError> {
        Ok(self.try_lock(id)?.is_none())
    }

    /// Removes what killed processes left, and of everything that is whole what `is_old` names. What a process
    /// holds stays.
    ///
    /// # Errors
    /// Returns the error of the first directory that cannot be removed.
    pub fn prune(&self, is_old: impl Fn(&str) -> bool) -> Result<Pruned, ShelfError> {
        self.clean();
        let mut pruned = Pruned::default();
        for id in self.ids()?.into_iter().filter(|id| is_old(id)) {
            let list = if self.remove(&id)? { &mut pruned.removed } else { &mut pruned.in_use };
            list.push(id);
        }
        Ok(pruned)
    }

    /// Returns an error about a file, which may be that the disk is full.
    #[must_use]
    pub fn failed(&self, doing: &'static str, path: &Path, source: io::Error) -> ShelfError {
        if is_disk_full(&source) {
            return ShelfError::DiskFull { doing: "writing", dir: self.dir.clone() };
        }
        ShelfError::File { doing, path: path.to_owned(), source }
    }

    /// Makes the directory; it has to be the caller's own, and nobody else's to enter: programs with
    /// set-user-ID bits lie in it while a system is built.
    fn open(&self) -> Result<(), ShelfError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        let found = made
            .and_then(|()| fs::metadata(&self.dir))
            .map_err(|error| self.failed("create", &self.dir, error))?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(ShelfError::NotOwn { dir: self.dir.clone() });
        }
        if found.mode() & 0o077 != 0 {
            let own = fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700));
            own.map_err(|error| self.failed("close", &self.dir, error))?;
        }
        Ok(())
    }

    fn try_lock(&self, id: &str) -> Result<Option<Lock>, ShelfError> {
        let path = self.dir.join(format!("{id}.lock"));
        Lock::try_take(&path).map_err(|error| self.failed("lock", &path, error))
    }

    /// Removes what killed processes left.
    pub fn clean(&self) {
        self.sweep(None);
    }

    /// Removes staging directories whose lock nobody else holds; that of `mine` the caller does.
    fn sweep(&self, mine: Option<&str>) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some((id, _)) = name.to_str().and_then(|name| name.split_once(".tmp-")) else {
                continue;
            };
            let lock =
                (Some(id) != mine).then(|| Lock::try_take(&self.dir.join(format!("{id}.lock"))));
            let abandoned = lock.as_ref().is_none_or(|lock| matches!(lock, Ok(Some(_))));
            if abandoned {
                // A failure is not in the way of this one; the next start tries again.
                remove_tree(&entry.path()).unwrap_or_default();
            }
        }
    }

    /// Writes the summary, waits for the disk, and moves all of it to its place.
    fn publish(&self, id: &str, staging: &Path, summary: &[u8]) -> Result<(), ShelfError> {
        let path = staging.join(self.summary);
        fs::write(&path, summary).map_err(|error| self.failed("write", &path, error))?;
        // One syncfs instead of an fsync for each of thousands of files.
        let synced = File::open(staging).and_then(|staging| Ok(rustix::fs::syncfs(staging)?));
        synced.map_err(|error| self.failed("sync", staging, error))?;
        let home = self.dir.join(id);
        // Only one that is not whole, or of no use, can be in the way.
        remove_tree(&home)
            .or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })
            .map_err(|error| self.failed("replace", &home, error))?;
        fs::rename(staging, &home).map_err(|error| self.failed("put in place", &home, error))?;
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| self.failed("sync", &self.dir, error))
    }
}
