//! Which files are secret, and which processes may not open them.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Id, id};
use crate::sys;
use crate::sys::fanotify::{Mark, Permissions};

/// Files that are remembered at most. To close one that has no name any more has the file system free it,
/// which can take milliseconds.
const MOST: usize = 1024;
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
}

impl<'a> Judge<'a> {
    pub(super) fn new(permissions: &'a Permissions, sandbox: &OwnedFd) -> Result<Self, Errno> {
        let sandbox = id(sandbox, "").ok_or(Errno::NOENT)?;
        let host = id(&user_namespace("self")?, "").ok_or(Errno::NOENT)?;
        Ok(Self { permissions, sandbox, host, secret: VecDeque::new() })
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
        if self.secret.len() == MOST {
            self.secret.pop_front();
        }
        self.secret.push_back((found, file));
    }

    fn is_noted(&self, file: Id) -> bool {
        self.secret.iter().any(|(secret, _)| *secret == file)
    }

    /// Whether a file has a hidden name, or had one. So may one that has no name any more: the host has
    /// saved again before anybody looked. One that a program has just made without a name is empty.
    pub(super) fn is_secret(&self, file: &OwnedFd) -> bool {
        let is_left = |stat: rustix::fs::Stat| stat.st_nlink == 0 && stat.st_size > 0;
        id(file, "").is_none_or(|file| self.is_noted(file))
            || rustix::fs::fstat(file).map_or(true, is_left)
    }

    /// Whether a process is in the sandbox's user namespace or one below it. It waits, so it is the one
    /// that had this number when it called open(2). Of one that was killed it does not matter.
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
