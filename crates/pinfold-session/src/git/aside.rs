//! Setting aside what the host must not execute: a rename in place, so that a person finds it.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Uid};
use rustix::io::Errno;

/// What is set aside has this added to its name.
pub(crate) const SUFFIX: &str = "pinfold-quarantine";

/// Renames needed at most: names that an earlier run left are passed over.
const MOST: u32 = 1000;

/// Sets aside what lies at `path` beneath `root`.
///
/// # Errors
/// What the system says: then it is still there, which the caller must say.
pub(crate) fn set_aside_beneath(root: &OwnedFd, path: &Path) -> Result<(), Errno> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = parent.unwrap_or(Path::new("."));
    let parent = rustix::fs::openat2(root, parent, flags, Mode::empty(), how)?;
    set_aside(&parent, Path::new(name))
}

/// Sets aside the entry of this name in a directory.
///
/// # Errors
/// As [`set_aside_beneath`].
pub(crate) fn set_aside(directory: &OwnedFd, name: &Path) -> Result<(), Errno> {
    for number in 0..MOST {
        let mut aside = name.as_os_str().to_owned();
        aside.push(format!(".{SUFFIX}"));
        if number > 0 {
            aside.push(format!("-{number}"));
        }
        let renamed =
            rustix::fs::renameat_with(directory, name, directory, aside, RenameFlags::NOREPLACE);
        if renamed != Err(Errno::EXIST) {
            return renamed;
        }
    }
    Err(Errno::EXIST)
}

/// Puts a new file into a directory, owned as the directory is.
///
/// # Errors
/// What the system says; `EEXIST` where something is there.
pub(crate) fn put(directory: &OwnedFd, name: &str, content: &[u8]) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o644))?;
    let mut rest = content;
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&file, rest)?..];
    }
    if rustix::process::geteuid().is_root() {
        let owner = rustix::fs::statat(directory.as_fd(), "", AtFlags::EMPTY_PATH)?;
        let (uid, gid) = (Uid::from_raw(owner.st_uid), Gid::from_raw(owner.st_gid));
        rustix::fs::fchown(&file, Some(uid), Some(gid))?;
    }
    Ok(())
}
