//! Things that are made in a repository so that a protected path exists to be covered.
//!
//! Most are empty directories. Making and above all removing one frees blocks, which on a
//! journaling file system takes some 80 µs each, and milliseconds while the disk is busy;
//! renaming one takes 3. So empty directories are kept in a pool of pinfold's own and lent.

use std::collections::VecDeque;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RawDir, RenameFlags, renameat_with};

use crate::places::Places;

/// How many empty directories are kept.
const KEPT: usize = 64;

/// What a `commondir` placeholder holds: the git directory itself (gitrepository-layout(5)).
pub(crate) const COMMONDIR: &[u8] = b".\n";

/// Something that is made so that a protected path exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placeholder {
    /// Where, on the host.
    pub(crate) path: PathBuf,
    /// What: a file with this content, or an empty directory, which git does not list.
    pub(crate) content: Option<&'static [u8]>,
}

impl Placeholder {
    /// Makes it, if it is not there.
    ///
    /// # Errors
    /// What the file system says, with the path.
    pub(crate) fn make(&self, pool: &mut Pool) -> io::Result<()> {
        let made = match self.content {
            None => pool.lend(&self.path),
            Some(content) => OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o644)
                .open(&self.path)
                .and_then(|mut file| file.write_all(content)),
        };
        match made {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if self.nobody_can_make_it(&error) => Ok(()),
            Err(error) => Err(io::Error::new(
                error.kind(),
                format!("cannot make {} to protect it: {error}", self.path.display()),
            )),
        }
    }

    /// What the user may not make, the inside may not make either: a read-only file system stays
    /// one, and the permissions of a directory are its owner's to change.
    fn nobody_can_make_it(&self, error: &io::Error) -> bool {
        let is_own = |directory: &Path| {
            let owner = fs::symlink_metadata(directory).map(|metadata| metadata.uid());
            owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw())
        };
        match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => true,
            io::ErrorKind::PermissionDenied => !self.path.parent().is_some_and(is_own),
            // The directory above could not be made, for one of these reasons.
            io::ErrorKind::NotFound => true,
            _ => false,
        }
    }
}

/// Removes a placeholder that nobody uses any more, if it still is what was made.
pub(crate) fn remove(path: &Path, pool: &mut Pool) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_dir() {
        pool.take_back(path);
    } else if metadata.is_file() && metadata.len() <= COMMONDIR.len() as u64 {
        let content = fs::read(path).unwrap_or_default();
        if content.is_empty() || content == COMMONDIR {
            let _ = fs::remove_file(path);
        }
    }
}

/// Empty directories, ready to be lent. Used under the sessions' common lock.
pub(crate) struct Pool {
    directory: PathBuf,
    names: VecDeque<u32>,
    next: u32,
}

impl Pool {
    /// Looks at what is there. A pool that cannot be had is an empty one.
    pub(crate) fn open(directory: &Path) -> Self {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => Some(entries),
            Err(_) => {
                Places::make_private(directory).ok().and_then(|()| fs::read_dir(directory).ok())
            }
        };
        let names = entries.into_iter().flatten().flatten();
        let names: VecDeque<u32> =
            names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        let next = names.iter().max().map_or(0, |name| name.wrapping_add(1));
        Self { directory: directory.to_owned(), names, next }
    }

    /// Puts an empty directory at a path where nothing is: one of the pool's, or a new one where
    /// the pool is empty or on another file system.
    ///
    /// # Errors
    /// What mkdir(2) says.
    pub(crate) fn lend(&mut self, path: &Path) -> io::Result<()> {
        if let Some(name) = self.names.pop_front() {
            let from = self.directory.join(name.to_string());
            // One that is not empty is not ours to put into a repository: it stays where it is.
            if is_empty(&from) {
                if renameat_with(CWD, &from, CWD, path, RenameFlags::NOREPLACE).is_ok() {
                    return Ok(());
                }
                self.names.push_back(name);
            }
        }
        fs::create_dir(path)
    }

    /// Takes an empty directory back. One that something was put in is not ours any more.
    pub(crate) fn take_back(&mut self, path: &Path) {
        if is_empty(path) && self.names.len() < KEPT {
            let to = self.directory.join(self.next.to_string());
            if renameat_with(CWD, path, CWD, &to, RenameFlags::NOREPLACE).is_ok() {
                self.names.push_back(self.next);
                self.next = self.next.wrapping_add(1);
                return;
            }
        }
        // Fails when it is not empty.
        let _ = fs::remove_dir(path);
    }
}

/// Whether nothing lies in a directory; a link to one does not count. With room for a few entries:
/// std's 32 KiB cost more than the look.
fn is_empty(directory: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::open(directory, flags, Mode::empty()) else { return false };
    let mut buffer = [MaybeUninit::uninit(); 512];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}
