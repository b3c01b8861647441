//! Things that are made in a repository so that a protected path exists to be covered.
//!
//! Most are empty directories. Making and above all removing one frees blocks, which on a
//! journaling file system takes some 80 µs each, and milliseconds while the disk is busy;
//! renaming one takes 3. So empty directories are kept in a pool of pinfold's own and lent.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags};
use rustix::fs::{renameat_with, statat, unlinkat};

use crate::anchor::Anchor;
use crate::beneath::read_bounded;
use crate::directories::Places;

/// How many empty directories are kept.
const KEPT: usize = 64;

/// What a `commondir` placeholder holds: the git directory itself (gitrepository-layout(5)).
pub(crate) const COMMONDIR: &[u8] = b".\n";

/// Something that is made so that a protected path exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    /// Where, on the host.
    pub path: PathBuf,
    /// What: a file with this content, or an empty directory, which git does not list.
    pub content: Option<&'static [u8]>,
}

impl Placeholder {
    /// Returns where it lies, seen from the nearest directory that is there already.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn locate(&self) -> io::Result<Located> {
        for above in self.path.ancestors().skip(1) {
            let anchor = match Anchor::of(above) {
                Err(error) if is_out_of_reach(&error) => continue,
                anchor => anchor.map_err(|error| self.failed(&error))?,
            };
            let below = self.path.strip_prefix(above).map_err(io::Error::other)?.to_owned();
            return Ok(Located { anchor, below });
        }
        Err(self.failed(&io::ErrorKind::NotFound.into()))
    }

    /// Makes it, if it is not there.
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub(crate) fn make(&self, located: &Located, pool: &mut Pool) -> io::Result<()> {
        let (above, name) = match located.open_above() {
            Ok(opened) => opened,
            // What could not be made above it, for one of these reasons, the sandbox cannot make.
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            Err(error) => return Err(self.failed(&error)),
        };
        let made = match self.content {
            None => pool.lend(above.as_fd(), name),
            Some(content) => {
                new_file(above.as_fd(), name).and_then(|mut file| file.write_all(content))
            }
        };
        match made {
            Err(error) if nobody_can_make_it(&above, &error) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &io::Error) -> io::Error {
        let what = format!("cannot make {} to protect it: {error}", self.path.display());
        io::Error::new(error.kind(), what)
    }
}

fn new_file(above: BorrowedFd<'_>, name: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(above, name, flags, Mode::from_raw_mode(0o644))?.into())
}

/// Returns whether a directory is missing, or lies in one that the user may not enter.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// Returns what the user may not make, the sandbox may not make either: a read-only file system stays
/// one, and the permissions of a directory are its owner's to change.
fn nobody_can_make_it(above: &OwnedFd, error: &io::Error) -> bool {
    let is_own = || {
        rustix::fs::fstat(above).is_ok_and(|it| it.st_uid == rustix::process::geteuid().as_raw())
    };
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => true,
        io::ErrorKind::PermissionDenied => !is_own(),
        _ => false,
    }
}

/// Where a placeholder lies: below a directory that was there before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    anchor: Anchor,
    below: PathBuf,
}

impl Located {
    /// Returns its path.
    pub fn path(&self) -> PathBuf {
        self.anchor.path().join(&self.below)
    }

    /// Opens the directory that it lies in.
    fn open_above(&self) -> io::Result<(OwnedFd, &Path)> {
        let name = self.below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let above = self.below.parent().unwrap_or(Path::new(""));
        Ok((self.anchor.open_below(above)?, Path::new(name)))
    }

    /// Removes it when nobody uses it any more, if it still is what was made.
    pub(crate) fn remove(&self, pool: &mut Pool) {
        let Ok((above, name)) = self.open_above() else { return };
        let Ok(stat) = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            pool.take_back(above.as_fd(), name);
        } else if let Ok(Some(content)) = read_bounded(&above, name, COMMONDIR.len() as u64)
            && (content.bytes.is_empty() || content.bytes == COMMONDIR)
        {
            let _ = unlinkat(&above, name, AtFlags::empty());
        }
    }

    /// Writes a list of them down. Paths hold any byte but NUL, so NUL ends each part.
    pub fn write_all(list: &[Self]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Self { anchor, below } in list {
            let (device, inode) = anchor.identity();
            bytes.extend_from_slice(format!("{device} {inode}\0").as_bytes());
            for path in [anchor.path(), below] {
                bytes.extend_from_slice(path.as_os_str().as_bytes());
                bytes.push(0);
            }
        }
        bytes
    }

    /// Returns what was written down. A last part that was written by half is left out.
    pub(crate) fn read_all(bytes: &[u8]) -> Vec<Self> {
        let parts: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let one = |parts: &[&[u8]]| {
            let (device, inode) = str::from_utf8(parts[0]).ok()?.split_once(' ')?;
            let anchor = Anchor::written(path(parts[1]), device.parse().ok()?, inode.parse().ok()?);
            Some(Self { anchor, below: path(parts[2]) })
        };
        // Each ends with a NUL, so the last part is what was not written to its end, or nothing.
        parts[..parts.len() - 1].chunks_exact(3).filter_map(one).collect()
    }
}

/// Empty directories, ready to be lent. Used under the sessions' common lock.
pub(crate) struct Pool {
    directory: PathBuf,
    names: VecDeque<u32>,
    next: u32,
}

impl Pool {
    /// Looks at what is there. A pool that is not available is an empty one.
    pub(crate) fn open(directory: &Path) -> Self {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => Some(entries),
            Err(_) => {
                Places::make_private(directory).ok().and_then(|()| fs::read_dir(directory).ok())
            }
        };
        let names: VecDeque<u32> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        let next = names.iter().max().map_or(0, |name| name.wrapping_add(1));
        Self { directory: directory.to_owned(), names, next }
    }

    /// Puts an empty directory where nothing is: one of the pool's, or a new one where the pool is
    /// empty or on another file system.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub(crate) fn lend(&mut self, above: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
        if let Some(number) = self.names.pop_front() {
            let from = self.directory.join(number.to_string());
            // One that is not empty is not ours to put into a repository: it stays where it is.
            if is_empty(CWD, &from) {
                if renameat_with(CWD, &from, above, name, RenameFlags::NOREPLACE).is_ok() {
                    return Ok(());
                }
                self.names.push_back(number);
            }
        }
        Ok(rustix::fs::mkdirat(above, name, Mode::from_raw_mode(0o777))?)
    }

    /// Takes an empty directory back. One that something was put in is not ours any more.
    pub(crate) fn take_back(&mut self, above: BorrowedFd<'_>, name: &Path) {
        if is_empty(above, name) && self.names.len() < KEPT {
            let to = self.directory.join(self.next.to_string());
            if renameat_with(above, name, CWD, &to, RenameFlags::NOREPLACE).is_ok() {
                self.names.push_back(self.next);
                self.next = self.next.wrapping_add(1);
                return;
            }
        }
        // Fails when it is not empty.
        let _ = unlinkat(above, name, AtFlags::REMOVEDIR);
    }
}

/// Returns whether nothing lies in a directory; a link to one does not count. With room for a few
/// entries: std's 32 KiB cost more than the look.
pub fn is_empty(above: BorrowedFd<'_>, name: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat(above, name, flags, Mode::empty()) else { return false };
    let mut buffer = [MaybeUninit::uninit(); 512];
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        if !entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")) {
            return false;
        }
    }
    true
}
