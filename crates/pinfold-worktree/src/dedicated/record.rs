//! What pinfold remembers of the worktrees that it made, and who works in them.
//!
//! `<state>/worktrees/<hash of the path>` says `making` while git makes a worktree, `fill` with the
//! directory's device and inode while its files come, and `made` with them until the last session in
//! it ends. Sessions hold it
//! locked together (flock(2)). One lock for all is held while something is made, taken or removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use pinfold_host::digest::name_of;
use pinfold_host::directories::Places;
use pinfold_host::sessions::{lock, lock_saying};
use pinfold_terminal::notify;
use rustix::fs::FlockOperation;

const MAKING: &str = "making";
/// As long as the next, which takes its place.
const FILL: &str = "fill ";
const MADE: &str = "made ";

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
/// Returns the file system's error, with the path.
pub(super) fn exclude_others(places: &Places) -> io::Result<File> {
    let directory = places.state.join("worktrees");
    Places::make_private(&directory)?;
    lock_saying(&directory.join("lock"), || {
        notify!("pinfold: waiting for another run that makes, checks or removes a worktree");
    })
}

impl Record {
    /// Opens the record of a worktree and says that this process works in it.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub(super) fn open(places: &Places, top: &Path) -> io::Result<Self> {
        let path = places.state.join("worktrees").join(name_of(top.as_os_str().as_bytes()));
        let file = lock(&path, FlockOperation::LockShared)?;
        Ok(Self { path, top: top.to_owned(), file })
    }

    /// Returns whether an earlier process ended while it made the worktree.
    pub(super) fn is_unfinished(&self) -> io::Result<bool> {
        let said = fs::read_to_string(&self.path)?;
        Ok(said == MAKING || said.starts_with(FILL))
    }

    /// Returns whether the directory that is there now is one that an earlier process was filling.
    pub(super) fn is_being_filled(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.path)? == self.about(FILL)?)
    }

    /// Returns whether the directory that is there now is one that was made for a run.
    pub(super) fn is_made(&self) -> io::Result<bool> {
        Ok(fs::read_to_string(&self.path)? == self.about(MADE)?)
    }

    /// Writes down that it is about to be made.
    pub(super) fn making(&self) -> io::Result<()> {
        self.write(MAKING)
    }

    /// Writes down that it is there, and its files come now.
    pub(super) fn filling(&self) -> io::Result<()> {
        self.write(&self.about(FILL)?)
    }

    /// Writes down that it was made.
    pub(super) fn finished(&self) -> io::Result<()> {
        self.write(&self.about(MADE)?)
    }

    /// Returns whether no other process works in it. If one does, that one sees to its end.
    pub(super) fn is_alone(&self) -> bool {
        rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Writes down that there is nothing to remember: the worktree is gone, or is from now on like
    /// any other.
    pub(super) fn forget(&self) -> io::Result<()> {
        self.write("")
    }

    /// Removes the file if it says nothing and nobody else has it open. Others must be excluded.
    pub(super) fn leave(self) -> io::Result<()> {
        if self.file.metadata()?.len() == 0 && self.is_alone() {
            fs::remove_file(&self.path)
        } else {
            Ok(())
        }
    }

    /// Returns where files about the worktree may lie for a while.
    pub(super) fn files(&self) -> PathBuf {
        self.path.with_extension("files")
    }

    fn about(&self, word: &str) -> io::Result<String> {
        let metadata = fs::symlink_metadata(&self.top)?;
        Ok(format!("{word}{}:{}", metadata.dev(), metadata.ino()))
    }

    /// Writes a record. One as long as what is there, or longer, is written in one call: a kill leaves one or
    /// the other.
    /// Anything else begins from nothing, which says that there is nothing to remember.
    fn write(&self, text: &str) -> io::Result<()> {
        if (text.len() as u64) < self.file.metadata()?.len() {
            self.file.set_len(0)?;
        }
        self.file.write_all_at(text.as_bytes(), 0)
    }
}
