//! Files that an administrator installed: nobody but root can have written or replaced them.

use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, lstat};
use rustix::io::Errno;

use crate::policy::is_canonical;
use crate::refusal::Refusal;

/// Opens a regular file for reading that belongs to root, in directories that belong to root, none of which
/// anybody else can write to. No symbolic link is followed.
///
/// # Errors
/// Returns which of them is not so.
pub fn open(path: &Path) -> Result<OwnedFd, Refusal> {
    let failed = Refusal::at(path.display());
    if !is_canonical(path) {
        return Err(failed(Errno::INVAL));
    }
    let mut at =
        rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    check(&at, Path::new("/"), FileType::Directory)?;
    let mut so_far = PathBuf::from("/");
    for name in path.iter().skip(1) {
        so_far.push(name);
        let is_last = so_far == path;
        // A pipe in its place must not keep this process waiting.
        let (how, kind) = if is_last {
            (OFlags::RDONLY | OFlags::NONBLOCK, FileType::RegularFile)
        } else {
            (OFlags::PATH, FileType::Directory)
        };
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = rustix::fs::openat(&at, name, flags, Mode::empty())
            .map_err(Refusal::at(so_far.display()))?;
        check(&at, &so_far, kind)?;
    }
    Ok(at)
}

/// Returns a path without the links that an administrator made: those of root in directories that nobody else can write
/// to. What lies below another directory stays as it is.
pub fn canonical(path: &Path) -> PathBuf {
    let (mut done, mut rest, mut links) = (PathBuf::from("/"), path.to_owned(), 0);
    loop {
        let mut parts = rest.components();
        let Some(part) = parts.next() else { return done };
        let left = parts.as_path().to_owned();
        let next = done.join(part);
        let is_roots = lstat(&done).is_ok_and(|at| fault(&at, FileType::Directory).is_none());
        let is_link = lstat(&next).is_ok_and(|found| {
            found.st_uid == 0 && FileType::from_raw_mode(found.st_mode) == FileType::Symlink
        });
        match (part, std::fs::read_link(&next)) {
            (Component::CurDir, _) => rest = left,
            // It goes up without a look: what a directory of root's lies in may be somebody else's.
            (Component::ParentDir, _) => {
                done.pop();
                rest = left;
            }
            // As many as the kernel follows (path_resolution(7)).
            (_, Ok(to)) if is_roots && is_link && links < 40 => {
                links += 1;
                rest = to.join(left);
            }
            _ => (done, rest) = (next, left),
        }
    }
}

fn check(file: &OwnedFd, path: &Path, kind: FileType) -> Result<(), Refusal> {
    let shown = path.display();
    let stat = rustix::fs::fstat(file).map_err(Refusal::at(&shown))?;
    match fault(&stat, kind) {
        None => Ok(()),
        Some(fault) => Err(Refusal::new(
            format!("{shown} {fault}"),
            format!(
                "`chown root:root {shown}` and `chmod go-w {shown}`, once you know who changed it"
            ),
        )),
    }
}

fn fault(stat: &Stat, kind: FileType) -> Option<&'static str> {
    let sticky = kind == FileType::Directory && stat.st_mode & Mode::SVTX.as_raw_mode() != 0;
    // In a sticky directory, as Nix's store is one, its group makes new names and replaces none of root's.
    let others = if sticky { Mode::WOTH } else { Mode::WGRP.union(Mode::WOTH) }.as_raw_mode();
    match (FileType::from_raw_mode(stat.st_mode), kind) {
        (found, wanted) if found == wanted => {}
        (_, FileType::Directory) => return Some("is no directory"),
        _ => return Some("is no regular file"),
    }
    if stat.st_uid != 0 {
        Some("does not belong to root")
    } else if stat.st_mode & others != 0 {
        Some("can be written to by others than root")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
