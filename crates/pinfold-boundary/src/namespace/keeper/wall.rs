//! What keeps a sandbox of root's from opening a hidden file whose mask has fallen off.
//!
//! A mask is put back only after the host has saved the file. In between a program that waits for the
//! save could open it. Root may hold every open(2) of the files in a directory until a process answers
//! (`FAN_OPEN_PERM`, fanotify(7)), so a process outside the sandbox does that for the directories of
//! hidden files. It allows everything but that a process of the sandbox opens a file that has a hidden
//! name, or had one. Under a mask such a file cannot be reached, so an honest program sees no difference.
//!
//! The moment without a mask is long enough to link or rename the file to a directory whose opens are not
//! held. So opens of a file that a program of the host makes next to a hidden one are held by any of its
//! names from the start: it may be what is renamed over the hidden file.
//!
//! It stays in the host's namespaces, and must never open a file in these directories itself. If it
//! ends, the kernel allows every open, so the keeper ends with it, and the session with that. Processes
//! of the host wait for it for a few microseconds, whatever the rest of the session does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_init::close_all_but;
use pinfold_wire::Mask;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::super::detached::open_host;
use crate::sys::fanotify::Permissions;
use crate::sys::{self, Side};

mod arrivals;
mod judge;

use arrivals::Arrivals;
use judge::Judge;

/// A file, directory or namespace by device and inode.
pub(super) type Id = (u64, u64);

/// Directories with hidden files, and the names in them.
type Names = BTreeMap<PathBuf, Vec<OsString>>;

/// The process, as the keeper holds it.
pub(super) struct Wall {
    /// Readable when it has ended.
    process: OwnedFd,
    /// Takes orders and confirms each. The process ends when this is closed.
    orders: OwnedFd,
    directories: Vec<PathBuf>,
}

impl Wall {
    /// Starts the process; none where nobody but root may have one, or there is nothing to hide. The caller
    /// has one thread, and has not joined the sandbox yet.
    ///
    /// # Errors
    /// Returns the error of starting it.
    pub(super) fn start(masks: &[Mask], namespace: &OwnedFd) -> Result<Option<Self>, Errno> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let mut names = Names::new();
        for mask in masks.iter().filter(|mask| mask.kind.hides()) {
            let path = Path::new(OsStr::from_bytes(&mask.path));
            if let Some((above, name)) = path.parent().zip(path.file_name()) {
                names.entry(above.to_owned()).or_default().push(name.to_owned());
            }
        }
        if names.is_empty() {
            return Ok(None);
        }
        let Ok(permissions) = Permissions::new() else { return Ok(None) };
        let sandbox = sys::owner_of_namespace(namespace.as_fd())?;
        let (orders, taken) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let directories = names.keys().cloned().collect();
        match sys::clone_into(0, None)? {
            Side::Parent { child: process, .. } => Ok(Some(Self { process, orders, directories })),
            Side::Child => {
                let kept = [permissions.as_fd(), sandbox.as_fd(), taken.as_fd()];
                let stood = close_all_but(&kept)
                    .and_then(|()| stand(&permissions, &sandbox, &taken, &names));
                sys::exit(i32::from(stood.is_err()))
            }
        }
    }

    /// Has the directories marked that the sandbox sees itself, not in a view: `find` opens one in the
    /// sandbox. Returns once they are; those that are marked already stay marked.
    ///
    /// # Errors
    /// Returns the error of `write(2)` or `read(2)`: `EPIPE` if the process has ended. `ENOSPC` if one could
    /// not be marked: the user has no inotify watch left.
    pub(super) fn mark(&self, find: impl Fn(&Path) -> Option<OwnedFd>) -> Result<(), Errno> {
        for (number, path) in self.directories.iter().enumerate() {
            let Some((device, inode)) = find(path).and_then(|opened| id(&opened, "")) else {
                continue;
            };
            let number = number as u64;
            let mut order = [0; ORDER];
            for (part, value) in order.chunks_exact_mut(8).zip([number, device, inode]) {
                part.copy_from_slice(&value.to_ne_bytes());
            }
            rustix::io::write(&self.orders, &order)?;
            let mut has_failed = [0];
            match rustix::io::read(&self.orders, &mut has_failed)? {
                0 => return Err(Errno::PIPE),
                _ if has_failed == [0] => {}
                _ => return Err(Errno::NOSPC),
            }
        }
        Ok(())
    }

    /// Ends the process, and waits for that.
    pub(super) fn end(self) {
        drop(self.orders);
        let _ = waitid(WaitId::PidFd(self.process.as_fd()), WaitIdOptions::EXITED);
    }

    /// Returns a descriptor that is readable when the process has ended.
    pub(super) fn ended(&self) -> &OwnedFd {
        &self.process
    }
}

/// A directory to be marked: its number, and its device and inode in the sandbox.
const ORDER: usize = 24;

/// Answers until the keeper ends.
fn stand(
    permissions: &Permissions,
    sandbox: &OwnedFd,
    orders: &OwnedFd,
    names: &Names,
) -> Result<(), Errno> {
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::prctl(libc::PR_SET_DUMPABLE, 0)?;
    // On a busy machine a file could be linked and opened before it is marked, and the host would wait.
    let _ = sys::run_first();
    let mut judge = Judge::new(permissions, sandbox)?;
    let mut arrivals = Arrivals::new()?;
    loop {
        let mut any = [
            PollFd::new(permissions, PollFlags::IN),
            PollFd::new(orders, PollFlags::IN),
            PollFd::new(arrivals.descriptor(), PollFlags::IN),
        ];
        match poll(&mut any, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        let is_ordered = !any[1].revents().is_empty();
        arrivals.read(&mut judge)?;
        for opening in permissions.read()? {
            let is_allowed = if judge.is_of_sandbox(opening.process) {
                // A name changes a moment before that is reported.
                arrivals.read(&mut judge)?;
                arrivals.note_hidden(&mut judge);
                !judge.is_secret(&opening.file)
            } else {
                judge.suspect(&opening.file);
                true
            };
            permissions.answer(&opening, is_allowed)?;
        }
        if is_ordered {
            let mut order = [0; ORDER];
            if rustix::io::read(orders, &mut order)? != ORDER {
                return Ok(());
            }
            let obeyed = obey(&order, names, permissions, &mut arrivals, &mut judge);
            rustix::io::write(orders, &[u8::from(obeyed.is_err())])?;
        }
    }
}

/// Marks a directory that the keeper names.
fn obey(
    order: &[u8; ORDER],
    names: &Names,
    permissions: &Permissions,
    arrivals: &mut Arrivals,
    judge: &mut Judge<'_>,
) -> Result<(), Errno> {
    let mut parts = order.chunks_exact(8).map(|part| part.try_into().map_or(0, u64::from_ne_bytes));
    let (number, device, inode) = (parts.next(), parts.next(), parts.next());
    let number = number.and_then(|number| usize::try_from(number).ok());
    let Some((path, names)) = number.and_then(|number| names.iter().nth(number)) else {
        return Err(Errno::PROTO);
    };
    // One that is not there on the host, or is another, is a view's or was replaced just now.
    let Ok(directory) = open_host(path) else { return Ok(()) };
    if id(&directory, "") != device.zip(inode) {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(&directory, ".", flags, Mode::empty())?;
    arrivals.watch(directory, names, permissions, judge)
}

/// Returns device and inode of what lies there, through no link.
fn id(above: &OwnedFd, path: impl rustix::path::Arg) -> Option<Id> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(above, path, flags, StatxFlags::INO).ok()?;
    let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
    Some((device, found.stx_ino))
}
