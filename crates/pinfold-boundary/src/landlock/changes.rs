//! What a session changed in its copy of the workspace, as an overlay's upper layer has it: what is new or different lies there,
//! and in the place of what is gone lies a whiteout. Everything in the sandbox has ended.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
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
            // What the host has made since was never in the copy.
            if !seen.contains(&name) && self.copied.entries.contains_key(&child) {
                let above = self.above(copy, path)?;
                whiteout(&above, &name)?;
            }
        }
        Ok(())
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
        match self.copied.entries.get(path) {
            Some(None) if is_directory => {
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
            Some(Some(inode)) if *inode == stat.st_ino && !self.is_later(&stat) => Ok(()),
            _ => {
                let above = self.above(copy, path.parent().unwrap_or(Path::new("")))?;
                rustix::fs::renameat(copy, name, above, name)
            }
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

/// Opens a directory of the copy, whatever mode the sandbox gave it.
fn open(at: std::os::fd::BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    match directory(at, name) {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = rustix::fs::openat(at, name, flags, Mode::empty())?;
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&found));
            rustix::fs::chmodat(CWD, &path, Mode::RWXU, AtFlags::empty())?;
            directory(at, name)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests;
