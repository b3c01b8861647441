//! Files that an administrator installed: nobody but root can have written or replaced them.

use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::refusal::Refusal;

/// Opens a regular file for reading that belongs to root, in directories that belong to root, none of which
/// anybody else can write to. No symbolic link is followed.
///
/// # Errors
/// Returns which of them is not so.
pub fn open(path: &Path) -> Result<OwnedFd, Refusal> {
    let failed = |errno: Errno| Refusal::plain(format!("{}: {errno}", path.display()));
    let names: Option<Vec<_>> = path
        .components()
        .filter(|component| *component != Component::RootDir)
        .map(|component| match component {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let names = names.filter(|names| path.is_absolute() && !names.is_empty());
    let names = names.ok_or_else(|| failed(Errno::INVAL))?;
    let mut at =
        rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    check(&at, Path::new("/"), FileType::Directory)?;
    for (number, name) in names.iter().enumerate() {
        let so_far: std::path::PathBuf =
            Path::new("/").join(names[..=number].iter().collect::<std::path::PathBuf>());
        let is_last = number + 1 == names.len();
        // A pipe in its place must not keep this process waiting.
        let (how, kind) = if is_last {
            (OFlags::RDONLY | OFlags::NONBLOCK, FileType::RegularFile)
        } else {
            (OFlags::PATH, FileType::Directory)
        };
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        at = rustix::fs::openat(&at, *name, flags, Mode::empty())
            .map_err(|errno| Refusal::plain(format!("{}: {errno}", so_far.display())))?;
        check(&at, &so_far, kind)?;
    }
    Ok(at)
}

fn check(file: &OwnedFd, path: &Path, kind: FileType) -> Result<(), Refusal> {
    let shown = path.display();
    let stat =
        rustix::fs::fstat(file).map_err(|errno| Refusal::plain(format!("{shown}: {errno}")))?;
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
    let others = Mode::WGRP.union(Mode::WOTH).as_raw_mode();
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
