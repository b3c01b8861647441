//! The index of a working tree of the host's, changed by the host's git.
//!
//! What is staged crosses as a tree. The host's index becomes what a two-tree merge makes of it
//! (git-read-tree(1)): where the session changed nothing, what the user staged stays; where both
//! changed a path, git refuses, and nothing is moved. The new index is prepared next to the old one
//! and takes its place under `index.lock`, which is held for the few milliseconds that moving the
//! branch takes.
//!
//! The index goes first and the branch follows, as in git itself. After a kill in between, the session's
//! changes are staged. In the other order the next commit would take them back.

use std::error::Error;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fmt, io};

use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{owner_at, read_bounded};
use rustix::fs::{
    AtFlags, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, linkat, openat, renameat,
    statat, unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::host_git::{GitError, HostGit};

const INDEX: &str = "index";
const LOCK: &str = "index.lock";
/// What git adds to the name of an index for its own lock.
const OF_GIT: &str = ".lock";
/// How long another git in the working tree is waited for: an editor's `git status` takes some
/// milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two attempts to take the lock.
const STEP: Duration = Duration::from_millis(20);

/// A copy of an index next to it, which git changes.
pub struct Staging<'a> {
    git: HostGit<'a>,
    directory: OwnedFd,
    /// The repository's directory of objects, where the copy lies: nobody watches it for changes.
    objects: OwnedFd,
    name: String,
    /// The copy, seen from the git directory.
    path: String,
    /// The index when it was copied; `None` where it was missing.
    before: Option<Stat>,
    /// Whether this holds the lock.
    is_locked: bool,
}

/// Whether the index is locked while it is copied and changed, or only while the copy takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// While the copy takes its place.
    Briefly,
    /// From before it is copied.
    Throughout,
}

/// Why an index was not changed.
#[derive(Debug)]
pub enum StagingError {
    /// Another git works there.
    Busy,
    /// The index was written since it was copied, as `git status` does.
    StagedSince,
    /// What was asked of git failed.
    Git(GitError),
    /// A file cannot be read or written: what it is, and why.
    File(&'static str, io::Error),
    /// What was to be done with the index in its place failed, and the index cannot be put back.
    NotPutBack(GitError, io::Error),
}

impl fmt::Display for StagingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("git is working there"),
            Self::StagedSince => f.write_str("something was staged in the meantime"),
            Self::Git(error) => error.fmt(f),
            Self::File(what, error) => write!(f, "{what}: {error}"),
            Self::NotPutBack(why, error) => write!(f, "{why}; the index: {error}"),
        }
    }
}

impl Error for StagingError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Busy | Self::StagedSince => None,
            Self::Git(error) | Self::NotPutBack(error, _) => Some(error),
            Self::File(_, error) => Some(error),
        }
    }
}

impl From<GitError> for StagingError {
    fn from(error: GitError) -> Self {
        Self::Git(error)
    }
}

impl From<StagingError> for Refusal {
    fn from(error: StagingError) -> Self {
        Self::of(error)
    }
}

impl<'a> Staging<'a> {
    /// Copies the index of a working tree of the repository at `common`. `session` identifies the copy
    /// from others: two processes with the same one must exclude each other, with all programs that they start.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn copy(git: HostGit<'a>, common: &Anchor, session: &str) -> Result<Self, StagingError> {
        Self::make(git, common, session, Locked::Briefly)
    }

    /// Returns the same with the lock held for as long as asked.
    ///
    /// # Errors
    /// Returns the errors of [`Self::copy`], or that git works there.
    pub fn make(
        git: HostGit<'a>,
        common: &Anchor,
        session: &str,
        locked: Locked,
    ) -> Result<Self, StagingError> {
        let failed = |error| StagingError::File("the git directory", error);
        let directory = git.directory.open().map_err(failed)?;
        let objects = common.open_below(Path::new("objects")).map_err(failed)?;
        // git removes what is left of it with other temporary files (git-prune(1)).
        let name = format!("tmp_pinfold_index_{session}");
        let up: String = git
            .directory
            .path()
            .strip_prefix(common.path())
            .map_err(|error| failed(io::Error::other(error)))?
            .components()
            .map(|_| "../")
            .collect();
        let path = format!("{up}objects/{name}");
        let (before, is_locked) = (None, false);
        let mut staging = Self { git, directory, objects, name, path, before, is_locked };
        staging.remove_left();
        if locked == Locked::Throughout {
            staging.lock()?;
        }
        staging.before = statat(&staging.directory, INDEX, AtFlags::SYMLINK_NOFOLLOW).ok();
        if staging.before.is_some() {
            let failed = |error| StagingError::File("the index cannot be copied", error);
            staging.copy_index().map_err(failed)?;
        }
        Ok(staging)
    }

    /// Removes what an attempt of the same session left that was killed: its copy, with what git made of it, and the
    /// lock of the index.
    fn remove_left(&self) {
        let of_git = format!("{}{OF_GIT}", self.name);
        for name in [&self.name, &of_git] {
            let _ = unlinkat(&self.objects, name, AtFlags::empty());
        }
        if self.is_own_lock() {
            let _ = unlinkat(&self.directory, LOCK, AtFlags::empty());
        }
    }

    fn open_index(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.directory, INDEX, flags, Mode::empty())?))
    }

    fn copy_index(&self) -> io::Result<()> {
        self.write_copy(self.open_index()?)
    }

    fn write_copy(&self, mut from: File) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(
            from.metadata()
                .map_or(0o644, |found| std::os::unix::fs::MetadataExt::mode(&found) & 0o666),
        );
        let mut to = File::from(openat(&self.objects, &self.name, flags, mode)?);
        io::copy(&mut from, &mut to)?;
        self.give(&to)
    }

    fn give(&self, file: &File) -> io::Result<()> {
        match owner_at(&self.directory, "HEAD") {
            Some((uid, gid)) if rustix::process::geteuid().is_root() => {
                std::os::unix::fs::fchown(file, Some(uid), Some(gid))
            }
            _ => Ok(()),
        }
    }

    fn run(&self, arguments: &[&str]) -> Result<String, GitError> {
        let said = self.git.run_with(arguments, &[("GIT_INDEX_FILE", &self.path)], None)?;
        Ok(String::from_utf8_lossy(&said).trim().to_owned())
    }

    /// Returns the tree that is staged; none where the index holds a conflict.
    pub fn tree(&self) -> Option<String> {
        if self.before.is_none() {
            self.run(&["read-tree", "--empty"]).ok()?;
        }
        self.run(&["write-tree"]).ok().filter(|tree| !tree.is_empty())
    }

    /// Stages what leads from one tree to another.
    ///
    /// # Errors
    /// Returns what git says where the user staged something else.
    pub fn merge(&self, from: Option<&str>, to: &str) -> Result<(), GitError> {
        match from {
            Some(from) if self.before.is_some() => self.run(&["read-tree", "-i", "-m", from, to]),
            _ => self.run(&["read-tree", "-i", "-m", to]),
        }
        .map(|_| ())
    }

    /// Stages a tree in the place of a conflict.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn reset(&self, tree: &str) -> Result<(), GitError> {
        self.run(&["read-tree", "-i", "--reset", tree]).map(|_| ())
    }

    /// Takes the index's lock, puts the copy in the place of the index, and runs `act`. If `act` fails, the index is put
    /// back.
    ///
    /// # Errors
    /// Returns why nothing was changed: git works there, somebody changed the index since it was
    /// copied, or what `act` says.
    pub fn install(
        mut self,
        act: impl FnOnce() -> Result<(), GitError>,
    ) -> Result<(), StagingError> {
        if !self.is_locked {
            self.lock()?;
        }
        if !self.is_unchanged() {
            return Err(StagingError::StagedSince);
        }
        let failed = |error| StagingError::File("the index", error);
        let old = self.before.as_ref().map(|_| self.open_index()).transpose().map_err(failed)?;
        let is_there = self.put_in_place().map_err(failed)?;
        act().map_err(|why| match self.put_back(old, is_there) {
            Ok(()) => StagingError::Git(why),
            Err(error) => StagingError::NotPutBack(why, error),
        })
    }

    /// Puts the copy in the place of the index. Returns false if it is missing: nothing was and is staged.
    fn put_in_place(&self) -> io::Result<bool> {
        self.make_as_old_as_before()?;
        match renameat(&self.objects, &self.name, &self.directory, INDEX) {
            Err(Errno::NOENT) if self.before.is_none() => Ok(false),
            renamed => Ok(renamed.map(|()| true)?),
        }
    }

    /// Puts the index back that was there before.
    fn put_back(&self, old: Option<File>, is_there: bool) -> io::Result<()> {
        match old {
            Some(old) => {
                self.write_copy(old)?;
                self.put_in_place().map(|_| ())
            }
            None if is_there => Ok(unlinkat(&self.directory, INDEX, AtFlags::empty())?),
            None => Ok(()),
        }
    }

    /// Takes the lock.
    fn lock(&mut self) -> Result<(), StagingError> {
        self.wait_for_lock().map_err(|errno| match errno {
            Errno::EXIST => StagingError::Busy,
            errno => StagingError::File(LOCK, errno.into()),
        })?;
        self.is_locked = true;
        Ok(())
    }

    fn wait_for_lock(&self) -> Result<(), Errno> {
        let latest = Instant::now() + PATIENCE;
        loop {
            match self.make_lock() {
                Err(Errno::EXIST) if Instant::now() < latest => std::thread::sleep(STEP),
                made => return made,
            }
        }
    }

    /// Makes the lock as a whole. If it were made first and written then, a kill in between would leave
    /// one that nobody removes.
    fn make_lock(&self) -> Result<(), Errno> {
        let name = format!("{}_lock_{}", self.name, std::process::id());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o644);
        let written = openat(&self.objects, &name, flags | OFlags::NOFOLLOW, mode)?;
        rustix::io::write(&written, self.name.as_bytes())?;
        let linked = linkat(&self.objects, &name, &self.directory, LOCK, AtFlags::empty());
        let _ = unlinkat(&self.objects, &name, AtFlags::empty());
        match linked {
            // A file system without hard links.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::XDEV | Errno::NOSYS) => {
                let lock = openat(&self.directory, LOCK, flags | OFlags::EXCL, mode)?;
                rustix::io::write(lock, self.name.as_bytes()).map(|_| ())
            }
            linked => linked,
        }
    }

    fn is_own_lock(&self) -> bool {
        let content = read_bounded(&self.directory, Path::new(LOCK), 4096).ok().flatten();
        content.is_some_and(|content| content.bytes == self.name.as_bytes())
    }

    /// Gives the copy the time of the index. By it git knows which files may have changed since it looked
    /// at them (Documentation/technical/racy-git.txt). git marks those when it writes an index, but it
    /// has not seen the working tree here.
    fn make_as_old_as_before(&self) -> Result<(), Errno> {
        let Some(before) = &self.before else { return Ok(()) };
        let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let nanoseconds = before.st_mtime_nsec as _;
        let last_modification = Timespec { tv_sec: before.st_mtime, tv_nsec: nanoseconds };
        let times = Timestamps { last_access, last_modification };
        utimensat(&self.objects, &self.name, &times, AtFlags::SYMLINK_NOFOLLOW)
    }

    fn is_unchanged(&self) -> bool {
        let now = statat(&self.directory, INDEX, AtFlags::SYMLINK_NOFOLLOW).ok();
        let state = |stat: &Stat| (stat.st_ino, stat.st_ctime, stat.st_ctime_nsec, stat.st_size);
        self.before.as_ref().map(state) == now.as_ref().map(state)
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if self.is_locked {
            let _ = unlinkat(&self.directory, LOCK, AtFlags::empty());
        }
        let _ = unlinkat(&self.objects, Path::new(&self.name), AtFlags::empty());
    }
}

#[cfg(test)]
mod tests;
