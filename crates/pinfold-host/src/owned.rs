//! Whose a file is. What decides about a session must be the caller's own or root's, and nobody else
//! may be able to change it, as ssh has it for its own files (`StrictModes` in sshd_config(5)).
//!
//! Every directory from the root on is opened and looked at by its descriptor, and the next one is
//! opened beneath it without following a link. So what was looked at is what is read.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use pinfold_policy::path::Escaped;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

use crate::directories::homes;

/// The largest file of settings, in bytes.
const LARGEST: u64 = 16 << 20;
/// Write permission for the group and for others.
const SHARED: u32 = 0o022;
/// Write permission for others.
const OTHERS: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The owner of what a user namespace does not map (user_namespaces(7)).
const OVERFLOW: u32 = 65_534;

/// Why a file or directory is not used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OwnedError {
    /// It is another user's.
    #[error(
        "{} belongs to the user with id {owner}, who could change what pinfold does for the user \
         with id {caller}", Escaped(.path)
    )]
    Foreign {
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs pinfold.
        caller: u32,
    },
    /// Others may write to it.
    #[error(
        "{} can be written by other users (mode {mode:04o}), who could change what pinfold does",
        Escaped(.path)
    )]
    Shared {
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be looked at or read.
    #[error("cannot read {}: {cause}", Escaped(.path))]
    Unreadable { path: PathBuf, cause: io::Error },
}

impl OwnedError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Foreign { caller: 0, .. } => Some(
                "let HOME name a directory of root's (`sudo -H pinfold …`), or run pinfold as that user"
                    .to_owned(),
            ),
            Self::Foreign { path, .. } => Some(format!(
                "make it yours with chown, or let HOME and the XDG variables name directories of \
                 yours instead of {}",
                Escaped(path)
            )),
            Self::Shared { path, .. } => Some(format!("chmod go-w {}", Escaped(path))),
            Self::Unreadable { .. } => None,
        }
    }
}

impl From<OwnedError> for io::Error {
    fn from(error: OwnedError) -> Self {
        let kind = match &error {
            OwnedError::Foreign { .. } | OwnedError::Shared { .. } => {
                io::ErrorKind::PermissionDenied
            }
            OwnedError::Unreadable { cause, .. } => cause.kind(),
        };
        Self::new(kind, error)
    }
}

/// Checks that a home is not another user's. One that is missing is nobody's.
///
/// # Errors
/// Returns an error if it is.
pub(crate) fn check_home(home: &Path) -> Result<(), OwnedError> {
    let Ok(home) = fs::canonicalize(home) else { return Ok(()) };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let looked = rustix::fs::open(&home, flags, Mode::empty()).and_then(rustix::fs::fstat);
    looked.map_or(Ok(()), |found| check_owner(&home, &found))
}

/// Checks a directory and every directory above it, as far as they are there.
///
/// # Errors
/// Returns an error if one of them is another user's or can be written by others.
pub fn check_directory(path: &Path) -> Result<(), OwnedError> {
    let (above, name) = match Chain::to(path)? {
        Some(chain) => chain,
        None => return Ok(()),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(above, name, flags, Mode::empty()) {
        Ok(opened) => check_own(path, &look(path, &opened)?),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(unreadable(path, errno)),
    }
}

/// Checks a directory and the files in it.
///
/// # Errors
/// Returns an error if one of them, or a directory above, is another user's or can be written by others.
pub fn check_files(directory: &Path) -> Result<(), OwnedError> {
    check_directory_itself(directory)?;
    let failed = |cause| OwnedError::Unreadable { path: directory.to_owned(), cause };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            open(&path)?;
        }
    }
    Ok(())
}

/// Reads a file that only the caller or root can write; none if it is not there. A link is followed,
/// and what it leads to has to be the caller's as well.
///
/// # Errors
/// Returns an error if the file, or a directory on the way, is another user's or can be written by
/// others; or it cannot be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, OwnedError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    let failed = |cause| OwnedError::Unreadable { path: path.to_owned(), cause };
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(Some(bytes))
}

/// Opens a file that only the caller or root can write, as [`read`] does.
///
/// # Errors
/// Returns the errors of [`read`].
pub fn open(path: &Path) -> Result<Option<File>, OwnedError> {
    let real = match fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(OwnedError::Unreadable { path: path.to_owned(), cause }),
    };
    // Anyone who may write to its directory may put another file or link there.
    path.parent().map_or(Ok(()), check_directory_itself)?;
    let Some((above, name)) = Chain::to(&real)? else { return Ok(None) };
    // NONBLOCK: opening a FIFO must not hang.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = match rustix::fs::openat(above, name, flags, Mode::empty()) {
        Ok(opened) => opened,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(unreadable(path, errno)),
    };
    let found = look(&real, &opened)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        let cause = io::Error::other("it is not a regular file");
        return Err(OwnedError::Unreadable { path: path.to_owned(), cause });
    }
    check_own(&real, &found)?;
    Ok(Some(File::from(opened)))
}

/// Checks the directory that a name of pinfold's lies in, wherever a link to it leads.
fn check_directory_itself(path: &Path) -> Result<(), OwnedError> {
    match fs::canonicalize(path) {
        Ok(real) => check_directory(&real),
        Err(_) => Ok(()),
    }
}

/// The directories above a path, each checked.
struct Chain;

impl Chain {
    /// Opens the directory that a path without links lies in; none where it is missing.
    fn to(path: &Path) -> Result<Option<(OwnedFd, &std::ffi::OsStr)>, OwnedError> {
        let homes = homes();
        let Some(name) = path.file_name() else { return Ok(None) };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut here = PathBuf::from("/");
        let root = rustix::fs::openat(CWD, &here, flags, Mode::empty());
        let mut at = root.map_err(|errno| unreadable(&here, errno))?;
        let above_home = |here: &Path| {
            homes
                .iter()
                .any(|home| path.starts_with(home) && home.starts_with(here) && home != here)
        };
        for part in path.parent().unwrap_or(path).components() {
            let Component::Normal(part) = part else { continue };
            here.push(part);
            at = match rustix::fs::openat(&at, part, flags, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(unreadable(&here, errno)),
            };
            let found = look(&here, &at)?;
            // What is above a home is the administrator's business, as ssh has it.
            if !above_home(&here) {
                check_owner(&here, &found)?;
            }
            let mode = found.st_mode;
            if mode & OTHERS != 0 && mode & STICKY == 0 {
                return Err(OwnedError::Shared { path: here, mode: mode & 0o7777 });
            }
        }
        Ok(Some((at, name)))
    }
}

fn check_own(path: &Path, found: &Stat) -> Result<(), OwnedError> {
    check_owner(path, found)?;
    match found.st_mode & SHARED {
        0 => Ok(()),
        _ => Err(OwnedError::Shared { path: path.to_owned(), mode: found.st_mode & 0o7777 }),
    }
}

fn check_owner(path: &Path, found: &Stat) -> Result<(), OwnedError> {
    let (owner, caller) = (found.st_uid, rustix::process::geteuid().as_raw());
    if owner == caller || owner == 0 || (owner == OVERFLOW && !maps_everybody()) {
        return Ok(());
    }
    Err(OwnedError::Foreign { path: path.to_owned(), owner, caller })
}

/// Returns whether every user of the machine has an id here: then nobody's files are those of an
/// account.
fn maps_everybody() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn look(path: &Path, opened: &OwnedFd) -> Result<Stat, OwnedError> {
    rustix::fs::fstat(opened).map_err(|errno| unreadable(path, errno))
}

fn unreadable(path: &Path, errno: Errno) -> OwnedError {
    OwnedError::Unreadable { path: path.to_owned(), cause: errno.into() }
}

#[cfg(test)]
mod tests;
