//! What pinfold remembers of the worktrees that it made, and who works in them.
//!
//! `<state>/worktrees/<hash of the path>` says `making` while a worktree is being made, and `made`
//! with the directory's device and inode until the last session in it ends. Sessions hold it
//! locked together (flock(2)). One lock for all is held while something is made, taken or removed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::places::Places;
use crate::repository::name_of;
use crate::state::lock;

const MAKING: &str = "making";

/// The record of one worktree, in use by this process.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    top: PathBuf,
    file: File,
}

/// Waits until nobody else makes, takes or removes a worktree.
///
/// # Errors
/// What the file system says, with the path.
pub(super) fn exclude_others(places: &Places) -> io::Result<File> {
    let directory = places.state.join("worktrees");
    Places::make_private(&directory)?;
    lock(&directory.join("lock"), FlockOperation::LockExclusive)
}

impl Record {
    /// Opens the record of a worktree and says that this process works in it.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub(super) fn open(places: &Places, top: &Path) -> io::Result<Self> {
        let path = places.state.join("worktrees").join(name_of(top.as_os_str().as_bytes()));
        let file = lock(&path, FlockOperation::LockShared)?;
        Ok(Self { path, top: top.to_owned(), file })
    }

    /// Whether an earlier process ended while it made the worktree.
    pub(super) fn is_unfinished(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.path)? == MAKING)
    }

    /// Whether the directory that is there now is one that was made for a run.
    pub(super) fn is_made(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.path)? == self.made()?)
    }

    /// Writes down that it is about to be made.
    pub(super) fn making(&mut self) -> io::Result<()> {
        self.write(MAKING)
    }

    /// Writes down that it was made.
    pub(super) fn finished(&mut self) -> io::Result<()> {
        let made = self.made()?;
        self.write(&made)
    }

    /// Whether no other process works in it. If one does, that one sees to its end.
    pub(super) fn is_alone(&self) -> bool {
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Writes down that there is nothing to remember: the worktree is gone, or is from now on like
    /// any other.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        self.write("")
    }

    /// Removes the file if it says nothing and nobody else has it open. Others must be excluded.
    pub(super) fn leave(self) -> io::Result<()> {
        match self.file.metadata()?.len() == 0 && self.is_alone() {
            true => fs::remove_file(&self.path),
            false => Ok(()),
        }
    }

    /// Where files about the worktree may lie for a while.
    pub(super) fn files(&self) -> PathBuf {
        self.path.with_extension("files")
    }

    fn made(&self) -> io::Result<String> {
        let metadata = fs::symlink_metadata(&self.top)?;
        Ok(format!("made {}:{}", metadata.dev(), metadata.ino()))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        io::Seek::rewind(&mut self.file)?;
        self.file.write_all(text.as_bytes())
    }
}
