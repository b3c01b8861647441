//! Which files are secret, and which processes may not open them.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Id, id};
use crate::sys;
use crate::sys::fanotify::{Mark, Permissions};

/// Files that are remembered at most. To close one that has no name any more has the file system free it,
/// which can take milliseconds.
const MOST: usize = 1024;
/// New files of the host that are remembered at most: those that a program has made and not renamed yet.
const MOST_NEW: usize = 64;
/// User namespaces above that of a process: the kernel nests 32.
const DEEPEST: usize = 33;

/// Decides on each open.
pub(super) struct Judge<'a> {
    permissions: &'a Permissions,
    /// The user namespace of the sandbox, which none of its processes can leave.
    sandbox: Id,
    /// The host's.
    host: Id,
    /// Files that have a hidden name, or had one. They are open, so that no other file gets the number of
    /// one of them.
    secret: VecDeque<(Id, OwnedFd)>,
    /// New files of the host next to hidden ones, which may get a hidden name.
    new: VecDeque<New>,
}

/// A new file of the host.
struct New {
    id: Id,
    file: OwnedFd,
    /// Its path when it was made.
    path: PathBuf,
}

impl<'a> Judge<'a> {
    pub(super) fn new(permissions: &'a Permissions, sandbox: &OwnedFd) -> Result<Self, Errno> {
        let sandbox = id(sandbox, "").ok_or(Errno::NOENT)?;
        let host = id(&user_namespace("self")?, "").ok_or(Errno::NOENT)?;
        let (secret, new) = (VecDeque::new(), VecDeque::new());
        Ok(Self { permissions, sandbox, host, secret, new })
    }

    /// Notes the file that has a hidden name now, or had one a moment ago. From then on opens by any
    /// name of that file are held.
    pub(super) fn note(&mut self, directory: &OwnedFd, name: &Path) {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return };
        let Some(found) = id(&file, "") else { return };
        if self.is_noted(found) {
            return;
        }
        // A link cannot be marked, and holds nothing.
        let _ = self.permissions.mark(Mark::File, &file);
        self.remember((found, file));
    }

    fn remember(&mut self, secret: (Id, OwnedFd)) {
        if self.secret.len() == MOST {
            self.secret.pop_front();
        }
        self.secret.push_back(secret);
    }

    /// Has opens of a file that a program of the host has just made held from now on, by any of its
    /// names. A file that is empty is taken for one.
    pub(super) fn suspect(&mut self, file: &OwnedFd) {
        let is_new = |stat: rustix::fs::Stat| stat.st_size == 0 && stat.st_nlink == 1;
        if !rustix::fs::fstat(file).is_ok_and(is_new) {
            return;
        }
        let by_number = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Some(id) = id(file, "") else { return };
        if self.is_noted(id) || self.new.iter().any(|new| new.id == id) {
            return;
        }
        let Ok(path) = rustix::fs::readlink(&by_number, Vec::new()) else { return };
        let path = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(&by_number, flags, Mode::empty()) else { return };
        if self.permissions.mark(Mark::File, &file).is_err() {
            return;
        }
        if self.new.len() == MOST_NEW
            && let Some(oldest) = self.new.pop_front()
        {
            self.forget(oldest);
        }
        self.new.push_back(New { id, file, path });
    }

    fn forget(&self, new: New) {
        if !self.is_noted(new.id) {
            let _ = self.permissions.unmark(Mark::File, &new.file);
        }
    }

    /// Notes that a hidden name was moved away, perhaps with a file that nobody has looked at yet. Which
    /// one that was is not known: each new file of the host that is not where it was made counts.
    pub(super) fn note_gone(&mut self) {
        for new in std::mem::take(&mut self.new) {
            let now = rustix::fs::lstat(&new.path).map(|stat| (stat.st_dev, stat.st_ino));
            if now == Ok(new.id) {
                self.new.push_back(new);
            } else if !self.is_noted(new.id) {
                self.remember((new.id, new.file));
            }
        }
    }

    fn is_noted(&self, file: Id) -> bool {
        self.secret.iter().any(|(secret, _)| *secret == file)
    }

    /// Returns whether a file has a hidden name, or had one. So may one that has no name any more: the
    /// host has saved again before anybody looked. One that a program has just made without a name is
    /// empty.
    pub(super) fn is_secret(&self, file: &OwnedFd) -> bool {
        let is_left = |stat: rustix::fs::Stat| stat.st_nlink == 0 && stat.st_size > 0;
        id(file, "").is_none_or(|file| self.is_noted(file))
            || rustix::fs::fstat(file).map_or(true, is_left)
    }

    /// Returns whether a process is in the sandbox's user namespace or one below it. It waits, so it is
    /// the one that had this number when it called open(2). Of one that was killed it does not matter.
    pub(super) fn is_of_sandbox(&self, process: i32) -> bool {
        let Ok(mut namespace) = user_namespace(&process.to_string()) else { return true };
        for _ in 0..DEEPEST {
            match id(&namespace, "") {
                Some(found) if found == self.sandbox => return true,
                Some(found) if found == self.host => return false,
                Some(_) => {}
                None => return true,
            }
            match sys::parent_of_namespace(namespace.as_fd()) {
                Ok(parent) => namespace = parent,
                // It is not below the host's.
                Err(_) => return false,
            }
        }
        true
    }
}

fn user_namespace(process: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/{process}/ns/user"), flags, Mode::empty())
}
