//! What a session changed in its copy of the workspace, as an overlay's upper layer has it: what is new or different lies there,
//! and in the place of what is gone lies a whiteout. Everything in the sandbox has ended.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno;

use super::copy::{Copied, directory, names};
use super::layout::View;
use crate::namespace::open_real;

/// Moves what was changed to the layer for changes. Nothing if there is no view, or no session was begun in it.
///
/// # Errors
/// Returns the error of the file system.
pub(super) fn collect(view: Option<(&View, &Copied)>) -> Result<(), Errno> {
    let Some((view, copied)) = view else { return Ok(()) };
    for alternates in &copied.alternates {
        // Without it the host takes no commits from there.
        let _ = alternates.put_back();
    }
    let copy = open(CWD.as_fd(), view.copy.as_os_str())?;
    let upper = directory(CWD, view.layers.join("upper").as_os_str())?;
    let lower = open_real(&view.workspace, OFlags::RDONLY | OFlags::DIRECTORY).ok();
    Collecting { copied, upper: &upper }.directory(&copy, lower.as_ref(), Path::new(""))
}

struct Collecting<'a> {
    copied: &'a Copied,
    upper: &'a OwnedFd,
}

impl Collecting<'_> {
    fn directory(&self, copy: &OwnedFd, lower: Option<&OwnedFd>, path: &Path) -> Result<(), Errno> {
        let mut seen = HashSet::new();
        for name in names(copy.as_fd())? {
            let child = path.join(&name);
            if !self.copied.skipped.contains(&child) {
                self.entry(copy, lower, &name, &child)?;
            }
            seen.insert(name);
        }
        for name in lower.map_or(Ok(Vec::new()), |lower| names(lower.as_fd()))? {
            let child = path.join(&name);
            if let Some(lower) = lower.filter(|_| !seen.contains(&name)) {
                self.gone(copy, lower, &name, &child)?;
            }
        }
        Ok(())
    }

    /// Records that an entry is not in the copy any more. Of a directory that holds more on the host than the copy had, such as a
    /// hidden file, only what the copy had is gone. The directory of the layer gets the mode of the one above the entry.
    fn gone(
        &self,
        above: &OwnedFd,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), Errno> {
        let below = directory(lower.as_fd(), name);
        match (self.copied.entries.get(path), below) {
            (Some(None), Ok(below)) if self.holds_more(&below, path)? => {
                for name in names(below.as_fd())? {
                    self.gone(&below, &below, &name, &path.join(&name))?;
                }
                Ok(())
            }
            (Some(None), Ok(_)) | (Some(Some(_)), Err(_)) => {
                let layer = self.above(above, path.parent().unwrap_or(Path::new("")))?;
                whiteout(&layer, name)
            }
            // What the host has made since was never in the copy.
            _ => Ok(()),
        }
    }

    /// Returns whether a directory of the host's holds something that the copy did not have.
    fn holds_more(&self, lower: &OwnedFd, path: &Path) -> Result<bool, Errno> {
        for name in names(lower.as_fd())? {
            let child = path.join(&name);
            let more = match self.copied.entries.get(&child) {
                None => true,
                Some(Some(_)) => false,
                Some(None) => match directory(lower.as_fd(), &name) {
                    Ok(below) => self.holds_more(&below, &child)?,
                    Err(_) => true,
                },
            };
            if more {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn entry(
        &self,
        copy: &OwnedFd,
        lower: Option<&OwnedFd>,
        name: &OsString,
        path: &Path,
    ) -> Result<(), Errno> {
        let stat = rustix::fs::statat(copy, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        match (self.copied.entries.get(path), lower) {
            (Some(None), _) if is_directory => {
                let below = open(copy.as_fd(), name)?;
                let lower = lower.and_then(|lower| directory(lower.as_fd(), name).ok());
                let modes = lower.as_ref().map(rustix::fs::fstat).transpose()?;
                if modes.is_some_and(|other| (other.st_mode ^ stat.st_mode) & 0o777 != 0)
                    && self.is_later(&stat)
                {
                    self.above(&below, path)?;
                }
                self.directory(&below, lower.as_ref(), path)?;
                // It may have been made accessible.
                rustix::fs::fchmod(&below, Mode::from_raw_mode(stat.st_mode & 0o777))
            }
            (Some(Some(inode)), _) if *inode == stat.st_ino && !self.is_later(&stat) => Ok(()),
            (Some(None), Some(lower)) if self.is_kept(lower, name, path)? => {
                self.gone(copy, lower, name, path)
            }
            _ => {
                let above = self.above(copy, path.parent().unwrap_or(Path::new("")))?;
                take(copy, name, &stat, &above)
            }
        }
    }

    /// Returns whether the host's directory has to stay because it holds more than the copy had. No file can take its place then.
    fn is_kept(&self, lower: &OwnedFd, name: &OsStr, path: &Path) -> Result<bool, Errno> {
        match directory(lower.as_fd(), name) {
            Ok(below) => self.holds_more(&below, path),
            Err(_) => Ok(false),
        }
    }

    /// Returns whether something was changed since the copy was complete.
    fn is_later(&self, stat: &Stat) -> bool {
        (stat.st_ctime, stat.st_ctime_nsec as i64) >= self.copied.complete
    }

    /// Returns a directory of the layer, made where it is missing with those above it. The innermost has the mode of the copy.
    fn above(&self, copy: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
        let mut at = self.upper.try_clone().map_err(|_| Errno::MFILE)?;
        for name in path.components() {
            match rustix::fs::mkdirat(&at, name.as_os_str(), Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            at = directory(at.as_fd(), name.as_os_str())?;
        }
        let mode = rustix::fs::fstat(copy)?.st_mode;
        rustix::fs::fchmod(&at, Mode::from_raw_mode(mode & 0o777 | 0o700))?;
        Ok(at)
    }
}

/// Says that something was deleted: by a device 0:0, or by a file with a mark where an overlay is below, as in a container.
fn whiteout(above: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    let device = FileType::CharacterDevice;
    match rustix::fs::mknodat(above, name, device, Mode::empty(), 0) {
        Err(Errno::PERM) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = rustix::fs::openat(above, name, flags, Mode::RUSR | Mode::WUSR)?;
            let mark = XattrFlags::empty();
            rustix::fs::fsetxattr(file, "user.overlay.whiteout", b"y", mark)
        }
        made => made,
    }
}

/// Moves an entry to the layer. A directory that changes its parent has to be writable.
fn take(copy: &OwnedFd, name: &OsStr, stat: &Stat, above: &OwnedFd) -> Result<(), Errno> {
    let is_closed =
        FileType::from_raw_mode(stat.st_mode) == FileType::Directory && stat.st_mode & 0o200 == 0;
    if !is_closed {
        return rustix::fs::renameat(copy, name, above, name);
    }
    let found = find(copy.as_fd(), name)?;
    set_mode(&found, stat.st_mode | 0o700)?;
    rustix::fs::renameat(copy, name, above, name)?;
    set_mode(&found, stat.st_mode)
}

/// Opens a directory of the copy to read and change it, whatever mode the sandbox gave it.
fn open(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let found = find(at, name)?;
    let mode = rustix::fs::fstat(&found)?.st_mode;
    if mode & 0o700 != 0o700 {
        set_mode(&found, mode | 0o700)?;
    }
    directory(at, name)
}

/// Opens a directory that may be closed to its owner.
fn find(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn set_mode(found: &OwnedFd, mode: u32) -> Result<(), Errno> {
    let path = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmodat(CWD, &path, Mode::from_raw_mode(mode & 0o777), AtFlags::empty())
}

#[cfg(test)]
mod tests;
