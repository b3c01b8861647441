//! What is to be done to the workspace, written down before any of it is done.
//!
//! Every step can be done again: one that is done already, or that others have made impossible,
//! changes nothing. So whatever ends the process, the next one goes on.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use pinfold_trees::tree::{Node, Tree, directory_at, node_at};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::record::as_bytes;
use super::seen::write_whole;

/// Everything that one `apply` does.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) steps: Vec<Step>,
    /// Whether the commits are taken over, too.
    pub(crate) commits: bool,
}

/// Something to be done at a path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Step {
    #[serde(with = "as_bytes")]
    pub(crate) path: PathBuf,
    pub(crate) action: Action,
}

/// What is done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Action {
    /// Removes a file that is this one, as [`identity`] identifies it.
    Remove { expected: String },
    /// Removes an empty directory.
    RemoveDirectory,
    /// Makes a directory.
    MakeDirectory,
    /// Puts what was staged in the place of this file.
    Put { staged: usize, expected: String },
    /// Lets the owner change what is in a directory that is closed to everybody.
    Open,
    /// Gives a directory that was opened its mode again.
    Close { mode: u32 },
    /// Gives a directory its mode and extended attributes.
    Finish { mode: u32, attributes: Vec<(Vec<u8>, Vec<u8>)>, owner: (u32, u32) },
}

/// A step that was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// Why, as a fragment.
    pub why: String,
}

/// Returns which file it is, and what it holds. The change time is no part of it: it moves when another
/// name of the same file is removed, which an earlier step may do.
pub(crate) fn identity(node: Option<&Node>) -> String {
    let Some(node) = node else { return "-".to_owned() };
    let (seconds, nanoseconds) = node.modified;
    format!(
        "{:?} {:o} {} {} {seconds}.{nanoseconds}",
        node.kind, node.mode, node.inode.1, node.size
    )
}

impl Journal {
    /// Reads what was written; `None` when there is nothing to be done.
    ///
    /// # Errors
    /// Returns the error of reading; `InvalidData` for what no `apply` wrote.
    pub(crate) fn read(file: &Path) -> io::Result<Option<Self>> {
        match fs::read(file) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes it, on disk when this returns: from here on it is done.
    ///
    /// # Errors
    /// Returns the file system's error; then nothing is done.
    pub(crate) fn write(&self, file: &Path) -> io::Result<()> {
        write_whole(file, &serde_json::to_vec(self)?)
    }

    /// Does every step, or what is left of it.
    pub(crate) fn carry_out(&self, workspace: &Tree, staging: Option<&OwnedFd>) -> Vec<Skipped> {
        let mut work = Work { workspace, staging, above: None };
        let mut skipped = Vec::new();
        for step in &self.steps {
            if let Err(why) = work.step(step) {
                skipped.push(Skipped { path: step.path.clone(), why: why.to_string() });
            }
        }
        skipped
    }
}

/// What the owner of a directory needs to change what is in it.
pub(crate) const OWNER: u32 = 0o700;

/// Why a step is not done.
#[derive(Debug, Error)]
enum StepError {
    #[error("it was changed in the meantime")]
    Changed,
    #[error("it has no name")]
    NoName,
    #[error("a symbolic link is in its path")]
    Link,
    #[error("it contains new or remaining files")]
    NotEmpty,
    #[error(transparent)]
    System(Errno),
}

impl From<Errno> for StepError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            Errno::NOTEMPTY => Self::NotEmpty,
            errno => Self::System(errno),
        }
    }
}

struct Work<'a> {
    workspace: &'a Tree,
    /// Where staged files lie; none when all of them are in their places.
    staging: Option<&'a OwnedFd>,
    /// The directory that was opened last.
    above: Option<(PathBuf, OwnedFd)>,
}

impl Work<'_> {
    fn step(&mut self, step: &Step) -> Result<(), StepError> {
        let name = step.path.file_name().ok_or(StepError::NoName)?;
        let above = match self.above(&step.path) {
            Ok(above) => above,
            // With the directory it is gone, too.
            Err(Errno::NOENT | Errno::NOTDIR) if step.action.may_be_gone() => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let now = node_at(above, name)?;
        match &step.action {
            Action::Remove { expected } => remove(above, name, now, expected),
            Action::RemoveDirectory => match now {
                Some(now) if now.is_directory() => {
                    self.above = None;
                    let above = self.above(&step.path)?;
                    rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?;
                    Ok(())
                }
                _ => Ok(()),
            },
            Action::MakeDirectory => match now {
                None => {
                    let mode = Mode::from_raw_mode(0o700);
                    rustix::fs::mkdirat(above, name, mode)?;
                    Ok(())
                }
                Some(now) if now.is_directory() => Ok(()),
                Some(_) => Err(StepError::Changed),
            },
            Action::Put { staged, expected } => {
                let Some(staging) = self.staging else { return Ok(()) };
                let staged = staged.to_string();
                if node_at(staging, OsStr::new(&staged))?.is_none() {
                    return Ok(());
                }
                let above = self.above(&step.path)?;
                if identity(now.as_ref()) == *expected {
                    rustix::fs::renameat(staging, &staged, above, name)?;
                    Ok(())
                } else {
                    Err(StepError::Changed)
                }
            }
            Action::Open => match now {
                Some(now) if now.is_directory() => {
                    set_mode(above, name, now.mode | OWNER)?;
                    Ok(())
                }
                _ => Ok(()),
            },
            Action::Close { mode } => match now {
                Some(now) if now.is_directory() => {
                    set_mode(above, name, *mode)?;
                    Ok(())
                }
                _ => Ok(()),
            },
            Action::Finish { mode, attributes, owner } => match now {
                Some(now) if now.is_directory() => {
                    finish(above, name, &now, *mode, attributes, *owner)?;
                    Ok(())
                }
                _ => Err(StepError::Changed),
            },
        }
    }

    fn above(&mut self, path: &Path) -> Result<&OwnedFd, Errno> {
        let directory = path.parent().unwrap_or(Path::new(""));
        if self.above.as_ref().is_none_or(|(known, _)| known != directory) {
            self.above = Some((directory.to_owned(), self.workspace.directory(directory)?));
        }
        self.above.as_ref().map(|(_, opened)| opened).ok_or(Errno::NOENT)
    }
}

impl Action {
    fn may_be_gone(&self) -> bool {
        matches!(self, Self::Remove { .. } | Self::RemoveDirectory) || self.is_aid()
    }

    /// Returns whether it is no change, but makes others possible.
    pub(crate) fn is_aid(&self) -> bool {
        matches!(self, Self::Open | Self::Close { .. })
    }
}

/// Removes a file. A directory in its place came after the file was removed.
fn remove(
    above: &OwnedFd,
    name: &OsStr,
    now: Option<Node>,
    expected: &str,
) -> Result<(), StepError> {
    match now {
        Some(now) if identity(Some(&now)) == expected => {
            rustix::fs::unlinkat(above, name, AtFlags::empty())?;
            Ok(())
        }
        Some(now) if !now.is_directory() => Err(StepError::Changed),
        _ => Ok(()),
    }
}

/// Sets a directory's mode, which need not be readable.
fn set_mode(above: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let place = rustix::fs::openat(above, name, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

fn finish(
    above: &OwnedFd,
    name: &OsStr,
    now: &Node,
    mode: u32,
    attributes: &[(Vec<u8>, Vec<u8>)],
    owner: (u32, u32),
) -> Result<(), Errno> {
    let directory = directory_at(above, name)?;
    give(&directory, attributes, owner)?;
    // What a directory inherited from the one above stays.
    rustix::fs::fchmod(directory, Mode::from_raw_mode(mode | (now.mode & 0o7000)))
}

/// Gives a new file or directory its owner, where the caller may, and its extended attributes.
///
/// # Errors
/// Returns the error of `fchown(2)` and `fsetxattr(2)`. A file system that has no attributes gets none.
pub(crate) fn give(
    place: impl AsFd,
    attributes: &[(Vec<u8>, Vec<u8>)],
    owner: (u32, u32),
) -> Result<(), Errno> {
    use rustix::fs::{Gid, Uid, XattrFlags, fchown, fsetxattr};
    if rustix::process::geteuid().is_root() {
        fchown(&place, Some(Uid::from_raw(owner.0)), Some(Gid::from_raw(owner.1)))?;
    }
    for (name, value) in attributes {
        match fsetxattr(&place, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns extended attributes as they are written down.
pub(crate) fn written(attributes: Vec<(OsString, Vec<u8>)>) -> Vec<(Vec<u8>, Vec<u8>)> {
    use std::os::unix::ffi::OsStringExt;
    attributes.into_iter().map(|(name, value)| (name.into_vec(), value)).collect()
}
