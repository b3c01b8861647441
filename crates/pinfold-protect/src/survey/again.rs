//! The second walk: only over what changed since the first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::began::Began;

use super::{
    DIRECTORY, Facts, Patience, Seen, State, Unseen, Visit, Walk, Walker, is_gone, joined,
};

/// Walks again over what an earlier walk saw: visits the directories that changed since, and
/// everything in directories that are new or were closed. Returns what it could not look into. What may
/// have changed since `began` is visited, too: the earlier walk may have seen what another session had
/// made, or a file system whose times are too coarse to tell two changes.
///
/// # Errors
/// As [`super::walk`]; `ECANCELED` if the time was not enough.
pub fn walk_changed<Z: Copy>(
    root: &Path,
    before: &Walk<Z>,
    (began, patience): (&Began, &Patience),
    visit: &mut Visit<'_, Z>,
) -> Result<Vec<Unseen>, Errno> {
    let how = ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(rustix::fs::CWD, root, flags, Mode::empty(), how)?;
    open_to_owner(&found);
    let root = rustix::fs::openat(&found, ".", DIRECTORY, Mode::empty())?;
    let known: HashSet<&[u8]> = before.seen.iter().map(|seen| seen.path.as_slice()).collect();
    let mut walker = Walker::new(visit, Facts::default());
    (walker.before, walker.patience) = (Some(before.unseen.as_slice()), Some(patience));
    // One directory that cannot be read keeps no other from being looked at.
    let mut failed = None;
    for before in &before.seen {
        let path: &[u8] = if before.path.is_empty() { b"." } else { &before.path };
        let now = rustix::fs::statat(&root, path, AtFlags::SYMLINK_NOFOLLOW);
        let now = now.map(|now| State::of(&now));
        let (seconds, nanoseconds) = before.state.changed;
        if now.as_ref() == Ok(&before.state) && !began.may_precede(seconds, nanoseconds) {
            continue;
        }
        let is_new = now.is_ok_and(|now| now.inode != before.state.inode);
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = match rustix::fs::openat2(&root, path, DIRECTORY, Mode::empty(), how) {
            Ok(directory) => directory,
            Err(Errno::ACCESS) => {
                walker.closed_since(&root, before)?;
                continue;
            }
            Err(errno) if is_gone(errno) => continue,
            Err(errno) => {
                failed.get_or_insert(errno);
                continue;
            }
        };
        open_to_owner(&directory);
        let below = match walker.visit(&directory, &before.path, before.zone, is_new) {
            Err(Errno::CANCELED) => return Err(Errno::CANCELED),
            Err(errno) => {
                failed.get_or_insert(errno);
                continue;
            }
            Ok(below) => below,
        };
        for (name, zone) in below {
            let child = joined(&before.path, &name);
            if known.contains(child.as_slice()) {
                continue;
            }
            match walker.enter(&directory, &name, child, zone) {
                Err(Errno::CANCELED) => return Err(Errno::CANCELED),
                Err(errno) => {
                    failed.get_or_insert(errno);
                }
                Ok(()) => {}
            }
        }
    }
    failed.map_or(Ok(walker.unseen), Err)
}

impl<Z: Copy> Walker<'_, '_, Z> {
    /// Looks into a directory that an earlier walk could read and that is closed now. Where the
    /// closed one lies above it, that one is looked into as a whole.
    fn closed_since(&mut self, root: &OwnedFd, before: &Seen<Z>) -> Result<(), Errno> {
        let whole = Path::new(OsStr::from_bytes(&before.path));
        let Some((above, name)) = whole.parent().zip(whole.file_name()) else { return Ok(()) };
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::openat2(root, above, flags, Mode::empty(), how) {
            Ok(parent) => self.enter(&parent, name.as_bytes(), before.path.clone(), before.zone),
            Err(_) => Ok(()),
        }
    }
}

/// Gives the owner of a directory the right to list, enter and change it, if that is the user.
pub(super) fn open_to_owner(directory: &OwnedFd) {
    const ALL: u32 = 0o700;
    let Ok(stat) = rustix::fs::fstat(directory) else { return };
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid == rustix::process::geteuid().as_raw() && mode & ALL != ALL {
        // fchmod(2) fails on what was opened with `O_PATH`.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let _ = rustix::fs::chmod(path, Mode::from_raw_mode(mode | ALL));
    }
}
