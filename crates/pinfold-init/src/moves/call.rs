//! What calls that rename are about.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

use crate::heard::{Call, Listener};

/// A directory that is to have another name.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) old: Name,
    pub(super) new: Name,
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) above: OwnedFd,
    pub(super) last: OsString,
}

/// Returns what a call wants, if it is to rename a directory. Most rename a file, so what the new
/// name is comes after that.
pub(super) fn wanted(listener: &Listener, call: &Call) -> Option<Wanted> {
    let [(old_directory, old_path), (new_directory, new_path)] = names(call)?;
    let old = find(call, old_directory, old_path)?;
    let node = rustix::fs::statat(&old.above, &old.last, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    if FileType::from_raw_mode(node.st_mode) != FileType::Directory {
        return None;
    }
    let new = find(call, new_directory, new_path)?;
    listener.is_waiting(call).then_some(Wanted { old, new })
}

/// Returns whether a call puts its caller behind a wall that init does not stand behind.
pub(super) fn is_wall(call: &Call) -> bool {
    call.number == libc::SYS_landlock_restrict_self
}

/// Returns directory and address of the old and the new path.
fn names(call: &Call) -> Option<[(i32, u64); 2]> {
    let [a, b, c, d, ..] = call.arguments;
    match call.number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Some([(libc::AT_FDCWD, a), (libc::AT_FDCWD, b)]),
        libc::SYS_renameat | libc::SYS_renameat2 => Some([(a as i32, b), (c as i32, d)]),
        _ => None,
    }
}

/// Opens the directory that a path of the caller's ends in. Root and mounts are the same for
/// everybody inside. /proc/self is init's own here, and init holds no directory but the root.
fn find(call: &Call, directory: i32, address: u64) -> Option<Name> {
    let path = call.read_path(address)?;
    let end = path.iter().rposition(|byte| *byte != b'/')?;
    let path = Path::new(OsStr::from_bytes(&path[..=end]));
    let last =
        path.file_name().filter(|last| path.as_os_str().as_bytes().ends_with(last.as_bytes()))?;
    let above = path.parent()?;
    let base = match directory {
        _ if path.is_absolute() => PathBuf::new(),
        libc::AT_FDCWD => PathBuf::from(format!("/proc/{}/cwd", call.thread)),
        directory => PathBuf::from(format!("/proc/{}/fd/{directory}", call.thread)),
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::openat(CWD, base.join(above), flags, Mode::empty()).ok()?;
    Some(Name { above, last: last.to_owned() })
}
