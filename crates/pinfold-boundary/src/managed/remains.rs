//! Mounts that a session of root's leaves on the host while it lasts.
//!
//! They lie in a directory of their own, in which nothing is ever removed with what is below it: what is
//! mounted there are the files of a user.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::path::HostPath;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::{LaunchError, namespace};

/// Where they lie, in a directory for each session.
const MOUNTS: &str = "/run/pinfold-mounts";

/// The mounts of one session: they go with this value, or, where that was killed, before the next is made.
#[derive(Debug)]
pub(crate) struct Remains {
    directory: PathBuf,
    count: usize,
    /// Locked for as long as they are in use (flock(2)).
    _lock: OwnedFd,
}

impl Remains {
    /// Begins with none, and takes those away that nobody uses any more.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(super) fn begin(session: &str) -> Result<Self, LaunchError> {
        let failed = |source| LaunchError::Source { path: MOUNTS.to_owned(), source };
        private(MOUNTS.as_ref()).map_err(failed)?;
        for entry in std::fs::read_dir(MOUNTS).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if let Ok(_lock) = lock(&path, FlockOperation::NonBlockingLockExclusive) {
                clear(&path);
            }
        }
        let directory = Path::new(MOUNTS).join(session);
        loop {
            private(&directory).map_err(failed)?;
            // A process that looks for dead ones in between finds it without a lock, and removes it.
            match lock(&directory, FlockOperation::LockExclusive) {
                Ok(lock) if is_there(&lock) => {
                    return Ok(Self { directory, count: 0, _lock: lock });
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// Attaches one and says where.
    ///
    /// # Errors
    /// Returns what the file system, or move_mount(2), says.
    pub(super) fn put(
        &mut self,
        mount: OwnedFd,
        is_directory: bool,
    ) -> Result<HostPath, LaunchError> {
        let at = self.directory.join(self.count.to_string());
        let failed = |source| LaunchError::Source { path: at.display().to_string(), source };
        if is_directory {
            private(&at).map_err(failed)?
        } else {
            drop(File::create_new(&at).map_err(failed)?)
        }
        self.count += 1;
        namespace::attach(mount.as_fd(), rustix::fs::CWD, &at)
            .map_err(|errno| failed(errno.into()))?;
        HostPath::new(&at).map_err(|error| failed(io::Error::other(error)))
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        clear(&self.directory);
    }
}

/// Takes the mounts in a directory away, and it. What is mounted is never looked into: a directory on
/// which something still is cannot be removed (rmdir(2), `EBUSY`).
fn clear(directory: &Path) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let _ = rustix::mount::unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        // A file on which something is mounted can be removed by its name (Linux 3.18): then what it
        // is mounted from stays.
        let _ = std::fs::remove_dir(&path).or_else(|_| std::fs::remove_file(&path));
    }
    let _ = std::fs::remove_dir(directory);
}

fn private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn lock(directory: &Path, how: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::open(directory, flags, Mode::empty())?;
    rustix::io::retry_on_intr(|| rustix::fs::flock(&lock, how))?;
    Ok(lock)
}

/// Returns whether a directory that is open has not been removed.
fn is_there(directory: &OwnedFd) -> bool {
    rustix::fs::fstat(directory).is_ok_and(|stat| stat.st_nlink > 0)
}
