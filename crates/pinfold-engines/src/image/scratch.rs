//! Directories for contexts, which are removed with their maker.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_trees::remove_tree;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};

use super::error::ImageError;

/// An empty directory of one's own. It is removed when this value is dropped; what somebody left who
/// was killed goes when the next one is made, since nobody holds its lock.
#[derive(Debug)]
pub(super) struct Scratch {
    path: PathBuf,
    _held: OwnedFd,
}

impl Scratch {
    /// Makes one in a directory of the user's.
    ///
    /// # Errors
    /// Returns the error of making or locking.
    pub(super) fn make(above: &Path) -> Result<Self, ImageError> {
        let failed = |doing, path: &Path, cause: io::Error| ImageError::Own {
            doing,
            path: path.to_owned(),
            cause,
        };
        Places::make_private(above).map_err(|cause| failed("make", above, cause))?;
        sweep(above).map_err(|cause| failed("clear", above, cause))?;
        for number in 0_u32.. {
            let path = above.join(format!("{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(cause) => return Err(failed("make", &path, cause)),
                Ok(()) => {}
            }
            // Somebody who sweeps may have been faster.
            if let Some(held) = hold(&path).map_err(|cause| failed("lock", &path, cause))? {
                return Ok(Self { path, _held: held });
            }
        }
        Err(failed("make", above, io::ErrorKind::AlreadyExists.into()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What this leaves, the next one sweeps.
        let _ = remove_tree(&self.path);
    }
}

/// Removes what nobody holds any more.
fn sweep(above: &Path) -> io::Result<()> {
    for entry in fs::read_dir(above)? {
        let path = entry?.path();
        if hold(&path)?.is_some() {
            remove_tree(&path)?;
        }
    }
    Ok(())
}

/// Locks a directory; none if somebody else has it, or it is gone.
fn hold(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    match rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    }
    let held = rustix::fs::fstat(&directory)?;
    let there = rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    let is_it = there.is_ok_and(|there| (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino));
    Ok(is_it.then_some(directory))
}

#[cfg(test)]
mod tests;
