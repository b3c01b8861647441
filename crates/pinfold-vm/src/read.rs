//! Reading a file whole, up to a limit.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use thiserror::Error;

/// Why a file was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read {path}: {source}")]
    Io {
        path: PathBuf,
        /// The error of open(2) or read(2).
        source: io::Error,
    },
    /// It is a directory, device, socket or pipe.
    #[error("{0} is not a regular file")]
    NotRegular(PathBuf),
    /// It is larger than any such file.
    #[error("{path} has more than {limit} bytes")]
    TooLarge { path: PathBuf, limit: u64 },
}

/// Opens a file to be read, without waiting for a pipe's writer.
///
/// # Errors
/// Returns the error of open(2).
pub(crate) fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path, flags, Mode::empty())
}

/// Reads a regular file of at most so many bytes. It never waits for a pipe or device.
///
/// # Errors
/// Returns an error if it is not regular, too large or cannot be read.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, ReadError> {
    let failed = |source: io::Error| ReadError::Io { path: path.into(), source };
    let file = open(path).map_err(|errno| failed(errno.into()))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadError::NotRegular(path.into()));
    }
    let mut bytes = Vec::new();
    File::from(file).take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(ReadError::TooLarge { path: path.into(), limit });
    }
    Ok(bytes)
}
