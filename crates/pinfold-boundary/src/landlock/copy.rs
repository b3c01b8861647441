//! A copy of the workspace, without what is hidden in it.
//!
//! Nothing is looked up by a path of more than one name: another session may write to the workspace.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_init::Failure;
use pinfold_wire::{MaskKind, Step};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno;

use super::borrowed::{self, Alternates};
use super::layout::{Layout, View};
use crate::namespace::open_real;

/// The directory of the copy, next to the changes. Elsewhere the kernel needs it for itself.
pub(super) const COPY: &str = "work";

/// Two descriptors are held for each level on the way down.
const DEEPEST: usize = 256;
/// The kernel's clock for files ticks every 10 ms or more often (`CONFIG_HZ`).
const TICK: Duration = Duration::from_millis(12);

/// What the copy was when it was complete.
#[derive(Debug)]
pub(super) struct Copied {
    /// What was copied: a file's inode, or nothing for a directory.
    pub(super) entries: HashMap<PathBuf, Option<u64>>,
    /// What looks different, or is not there.
    pub(super) skipped: HashSet<PathBuf>,
    /// What names borrowed objects in private git directories.
    pub(super) alternates: Vec<Alternates>,
    /// By the clock of the file system: every later change has no earlier time.
    pub(super) complete: (i64, i64),
}

/// Copies the workspace. In the place of what is masked lies what the sandbox is to see.
///
/// # Errors
/// Returns an error for the path that failed.
pub(super) fn copy(
    view: &View,
    masks: &HashMap<PathBuf, MaskKind>,
    layout: &Layout,
) -> Result<Copied, Failure> {
    let from = open_real(&view.workspace, OFlags::RDONLY | OFlags::DIRECTORY);
    let from = from.map_err(about(&view.workspace))?;
    let mode = rustix::fs::fstat(&from).map_err(about(&view.workspace))?.st_mode;
    rustix::fs::mkdir(&view.copy, Mode::RWXU).map_err(about(&view.copy))?;
    let to = directory(CWD, view.copy.as_os_str()).map_err(about(&view.copy))?;
    let (entries, skipped, alternates) = (HashMap::new(), HashSet::new(), Vec::new());
    let mut copying = Copying { masks, layout, entries, skipped, alternates, depth: 0 };
    copying.directory(&from, &to, Path::new(""))?;
    rustix::fs::fchmod(&to, Mode::from_raw_mode(mode & 0o777)).map_err(about(&view.copy))?;
    // What is copied in one tick of the clock with the mark would look changed.
    std::thread::sleep(TICK);
    let complete = mark(&view.layers.join(COPY)).map_err(about(&view.copy))?;
    let Copying { entries, skipped, alternates, .. } = copying;
    Ok(Copied { entries, skipped, alternates, complete })
}

fn about(path: &Path) -> impl FnOnce(Errno) -> Failure + use<'_> {
    move |errno| Failure::about(Step::View, path.as_os_str().as_bytes())(errno)
}

struct Copying<'a> {
    masks: &'a HashMap<PathBuf, MaskKind>,
    layout: &'a Layout,
    entries: HashMap<PathBuf, Option<u64>>,
    skipped: HashSet<PathBuf>,
    alternates: Vec<Alternates>,
    depth: usize,
}

/// One entry of a directory that is copied.
struct Found<'a> {
    from: &'a OwnedFd,
    to: &'a OwnedFd,
    name: &'a OsStr,
    path: &'a Path,
    stat: Stat,
}

impl Copying<'_> {
    fn directory(&mut self, from: &OwnedFd, to: &OwnedFd, path: &Path) -> Result<(), Failure> {
        for name in names(from.as_fd()).map_err(about(path))? {
            let child = path.join(&name);
            let stat = match rustix::fs::statat(from, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                // It has just gone, or may not be seen.
                Err(Errno::NOENT | Errno::ACCESS) => continue,
                Err(errno) => return Err(about(&child)(errno)),
            };
            let found = Found { from, to, name: &name, path: &child, stat };
            match self.entry(&found)? {
                Ok(entry) => drop(self.entries.insert(child, entry)),
                // What the user may not read the sandbox does not get either.
                Err(Errno::ACCESS | Errno::PERM | Errno::NOENT | Errno::LOOP) => {
                    self.skipped.insert(child);
                }
                Err(errno) => return Err(about(&child)(errno)),
            }
        }
        Ok(())
    }

    /// Copies one entry; the inner error is its own.
    fn entry(&mut self, found: &Found<'_>) -> Result<Result<Option<u64>, Errno>, Failure> {
        let Found { from, to, name, path, stat } = *found;
        if let Some(mask) = self.masks.get(path)
            && !matches!(mask, MaskKind::ReadOnly | MaskKind::Pin)
        {
            self.skipped.insert(path.to_owned());
            return Ok(self.masked(found, mask).and(Err(Errno::NOENT)));
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(file(found).map(Some)),
            FileType::Symlink => Ok(link(found).map(Some)),
            FileType::Directory if self.depth < DEEPEST => {
                let opened = directory(from.as_fd(), name);
                let made = opened.and_then(|opened| {
                    rustix::fs::mkdirat(to, name, Mode::RWXU)?;
                    Ok((opened, directory(to.as_fd(), name)?))
                });
                let (below, into) = match made {
                    Ok(made) => made,
                    Err(errno) => return Ok(Err(errno)),
                };
                self.depth += 1;
                let copied = self.directory(&below, &into, path);
                self.depth -= 1;
                copied?;
                let mode = Mode::from_raw_mode(stat.st_mode & 0o777);
                Ok(rustix::fs::fchmod(&into, mode).map(|()| None))
            }
            // Sockets, FIFOs and devices lead out of the copy.
            _ => Ok(Err(Errno::PERM)),
        }
    }

    /// Puts in the place of something masked what the sandbox is to see.
    fn masked(&mut self, found: &Found<'_>, mask: &MaskKind) -> Result<(), Errno> {
        let Found { to, name, stat, .. } = *found;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        let (mode, content) = match mask {
            MaskKind::Close => (0, Vec::new()),
            MaskKind::Replace(with) => {
                let with = self.layout.place(Path::new(OsStr::from_bytes(with)));
                if let Ok(real) = std::fs::canonicalize(&with) {
                    self.alternates.extend(borrowed::put_in_place(&real, self.layout)?);
                }
                return rustix::fs::symlinkat(with, to, name);
            }
            MaskKind::HideWith(with) => {
                let with = self.layout.place(Path::new(OsStr::from_bytes(with)));
                let content = std::fs::read(with);
                (0o444, content.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?)
            }
            MaskKind::Hide | MaskKind::ReadOnly | MaskKind::Pin | MaskKind::Borrow(_) => {
                (0o444, Vec::new())
            }
        };
        if is_directory {
            return rustix::fs::mkdirat(to, name, Mode::from_raw_mode(mode | (mode >> 2)));
        }
        let made = create(to, name)?;
        write(&made, &content)?;
        rustix::fs::fchmod(&made, Mode::from_raw_mode(mode))
    }
}

fn write(file: &OwnedFd, mut rest: &[u8]) -> Result<(), Errno> {
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(file, rest)?..];
    }
    Ok(())
}

fn create(to: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)
}

/// Copies a file, and returns the inode of the copy. Where the file system can, both share their blocks.
fn file(found: &Found<'_>) -> Result<u64, Errno> {
    let Found { from, to, name, .. } = *found;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let old = rustix::fs::openat(from, name, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&old)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    let new = create(to, name)?;
    if rustix::fs::ioctl_ficlone(&new, &old).is_err() {
        let (mut old, mut new) = (File::from(old), File::from(new.try_clone().map_err(io)?));
        std::io::copy(&mut old, &mut new).map_err(io)?;
    }
    rustix::fs::fchmod(&new, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    let time = |tv_sec: i64, tv_nsec: i64| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec as i64),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec as i64),
    };
    rustix::fs::futimens(&new, &times)?;
    Ok(rustix::fs::fstat(&new)?.st_ino)
}

fn link(found: &Found<'_>) -> Result<u64, Errno> {
    let Found { from, to, name, .. } = *found;
    let target = rustix::fs::readlinkat(from, name, Vec::new())?;
    rustix::fs::symlinkat(&*target, to, name)?;
    Ok(rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino)
}

/// Opens a directory that is no link.
///
/// # Errors
/// Returns the error of `open(2)`.
pub(super) fn directory(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// Returns the names in a directory.
///
/// # Errors
/// Returns the error of reading it.
pub(super) fn names(directory: BorrowedFd<'_>) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Returns the present by the clock of the file system of a directory.
fn mark(above: &Path) -> Result<(i64, i64), Errno> {
    let at = above.join("complete");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(&at, flags, Mode::RUSR)?;
    let stat = rustix::fs::fstat(&file)?;
    rustix::fs::unlink(&at)?;
    Ok((stat.st_ctime, stat.st_ctime_nsec as i64))
}

fn io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
pub(super) mod tests;
