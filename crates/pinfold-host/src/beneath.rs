//! Reading files that an agent or a repository may have written: never through a link, never
//! anything but a regular file, never more than a bound.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use thiserror::Error;

/// Far more than any configuration that git wrote.
pub const LARGEST: u64 = 1 << 20;

/// Why a file is not read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Unread {
    /// It is a symbolic link, or lies behind one.
    #[error("is a symbolic link")]
    Link,
    /// It is a directory, a socket or a device.
    #[error("is not a regular file")]
    Kind,
    /// It is larger than the bound.
    #[error("is larger than {0} bytes")]
    Size(u64),
    /// The system does not let it be read.
    #[error("cannot be read ({0})")]
    System(Errno),
}

/// A file's content and permission bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    pub bytes: Vec<u8>,
    /// The permission bits.
    pub mode: u32,
    /// When file or attributes were changed last, in seconds since 1970 (ctime). Nobody can set it.
    pub changed_at: i64,
}

/// Opens a directory for the functions here, following no link.
///
/// # Errors
/// Returns the error of `openat2(2)`.
pub fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), how)
}

/// Reads a regular file of at most [`LARGEST`] bytes beneath a directory; `None` when nothing is
/// there.
///
/// # Errors
/// Returns why it is not read.
pub fn read_beneath(directory: impl AsFd, path: &Path) -> Result<Option<Content>, Unread> {
    read_bounded(directory, path, LARGEST)
}

/// Returns the same with a bound of its own, in bytes.
///
/// # Errors
/// Returns the errors of [`read_beneath`].
pub fn read_bounded(
    directory: impl AsFd,
    path: &Path,
    largest: u64,
) -> Result<Option<Content>, Unread> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // A FIFO must not make the reader wait, nor a terminal become its own.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match rustix::fs::openat2(directory, path, flags, Mode::empty(), how) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(Errno::LOOP) => return Err(Unread::Link),
        // What a socket answers to open(2).
        Err(Errno::NXIO) => return Err(Unread::Kind),
        Err(errno) => return Err(Unread::System(errno)),
    };
    let stat = rustix::fs::fstat(&file).map_err(Unread::System)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Unread::Kind);
    }
    // One more than it has: what is read is not moved, and left behind, before its end is seen.
    let size = u64::try_from(stat.st_size).unwrap_or(0).min(largest) + 1;
    let mut bytes = Vec::with_capacity(size as usize);
    let read = File::from(file).take(largest + 1).read_to_end(&mut bytes);
    read.map_err(|error| Unread::System(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    if bytes.len() as u64 > largest {
        return Err(Unread::Size(largest));
    }
    Ok(Some(Content { bytes, mode: stat.st_mode & 0o777, changed_at: stat.st_ctime }))
}

/// Lists a directory beneath another one, following no link.
///
/// # Errors
/// Returns the error of `openat2(2)` or `readdir(3)`.
pub fn list_beneath(directory: impl AsFd, path: &Path) -> Result<fs::ReadDir, Errno> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(directory, path, flags, Mode::empty(), how)?;
    let listed = fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    listed.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// Returns what lies at a name, if anything does; a link is a link.
pub fn kind_at(directory: impl AsFd, name: &str) -> Option<FileType> {
    let stat = rustix::fs::statat(directory, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW);
    stat.ok().map(|stat| FileType::from_raw_mode(stat.st_mode))
}

/// Returns who the entry of this name in a directory belongs to, or the directory where it is missing:
/// what is written for it stays theirs.
pub fn owner_at(directory: impl AsFd, name: &str) -> Option<(u32, u32)> {
    let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .or_else(|_| rustix::fs::fstat(&directory));
    stat.ok().map(|stat| (stat.st_uid, stat.st_gid))
}

/// Joins a relative path to a root; an empty one gives the root.
#[must_use]
pub fn join_beneath(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) }
}
