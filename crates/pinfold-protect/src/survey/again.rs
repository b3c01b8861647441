//! The second walk: only over what changed since the first.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::began::Began;
use crate::patience::Patience;

use super::facts::Facts;
use super::seen::{Seen, State, Unseen, Walk};
use super::walker::{DIRECTORY, Visit, Walker, is_gone, joined};

/// Walks again over what an earlier walk saw: visits the directories that changed since, and
/// everything in directories that are new or were closed. Returns what it could not look into. What may
/// have changed since `began` is visited, too: the earlier walk may have seen what another session had
/// made, or a file system whose times are too coarse to tell two changes.
///
/// # Errors
/// Returns the errors of [`super::walk`]; `ECANCELED` if the time was not enough.
pub fn walk_changed<Z: Copy + Sync>(
    root: &Path,
    before: &Walk<Z>,
    began: &Began,
    patience: &Patience,
    visit: &mut Visit<'_, Z>,
) -> Result<Vec<Unseen>, Errno> {
    let how = ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(rustix::fs::CWD, root, flags, Mode::empty(), how)?;
    open_to_owner(&found);
    let root = rustix::fs::openat(&found, ".", DIRECTORY, Mode::empty())?;
    let mut walker = Walker::new(visit, Facts::default());
    (walker.before, walker.patience) = (Some(before.unseen.as_slice()), Some(patience));
    // One directory that cannot be read keeps no other from being looked at.
    let mut failed = None;
    let changed = changed(&root, &before.seen, began);
    let known = within(&before.seen, &changed);
    for before in changed {
        let path = path_of(before);
        let is_new = state_of(&root, path).is_ok_and(|now| now.inode != before.state.inode);
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
            // It was removed after it was opened.
            Err(Errno::NOENT) => continue,
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

/// Fewer directories are looked at by one thread, since it takes a tenth of a millisecond to start one.
const FEW: usize = 1024;
/// More threads than these do not help: they wait for each other in the kernel.
const MOST_THREADS: usize = 4;

/// Returns which of these directories are not the same any more, or may have changed since `began`.
fn changed<'s, Z: Sync>(root: &OwnedFd, seen: &'s [Seen<Z>], began: &Began) -> Vec<&'s Seen<Z>> {
    let among = |seen: &'s [Seen<Z>]| -> Vec<&'s Seen<Z>> {
        let is_changed = |before: &&Seen<Z>| {
            let (seconds, nanoseconds) = before.state.changed;
            state_of(root, path_of(before)).as_ref() != Ok(&before.state)
                || began.may_precede(seconds, nanoseconds)
        };
        seen.iter().filter(is_changed).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    if seen.len() < FEW || threads == 1 {
        return among(seen);
    }
    std::thread::scope(|scope| {
        let parts = seen.chunks(seen.len().div_ceil(threads));
        let start = |part| {
            let look = std::thread::Builder::new().spawn_scoped(scope, move || among(part));
            (part, look)
        };
        let started: Vec<_> = parts.map(start).collect();
        let looked = started.into_iter().map(|(part, look)| match look.map(|look| look.join()) {
            Ok(Ok(changed)) => changed,
            // No thread could be started, or it is lost.
            _ => among(part),
        });
        looked.flatten().collect()
    })
}

/// Returns the paths of those directories that lie in one of these others.
fn within<'s, Z>(seen: &'s [Seen<Z>], changed: &[&Seen<Z>]) -> HashSet<&'s [u8]> {
    let changed: HashSet<&[u8]> = changed.iter().map(|seen| seen.path.as_slice()).collect();
    let parent =
        |path: &'s [u8]| &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or_default()];
    let paths = seen.iter().map(|seen| seen.path.as_slice());
    paths.filter(|path| !path.is_empty() && changed.contains(parent(path))).collect()
}

fn path_of<Z>(seen: &Seen<Z>) -> &[u8] {
    if seen.path.is_empty() { b"." } else { &seen.path }
}

fn state_of(root: &OwnedFd, path: &[u8]) -> Result<State, Errno> {
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).map(|now| State::of(&now))
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
pub fn open_to_owner(directory: &OwnedFd) {
    const ALL: u32 = 0o700;
    let Ok(stat) = rustix::fs::fstat(directory) else { return };
    let mode = stat.st_mode & 0o7777;
    if stat.st_uid == rustix::process::geteuid().as_raw() && mode & ALL != ALL {
        // fchmod(2) fails on what was opened with `O_PATH`.
        let path = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let _ = rustix::fs::chmod(path, Mode::from_raw_mode(mode | ALL));
    }
}
