//! Who asks, as the kernel says.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::mounts::last_error;
use crate::refusal::Refusal;

/// Groups that a process has at most (`NGROUPS_MAX`, include/uapi/linux/limits.h).
const MOST_GROUPS: usize = 65_536;

/// The user on the other side of a socket, as of when it was connected or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    groups: Vec<Gid>,
}

impl Caller {
    /// Asks the kernel (`SO_PEERCRED` and `SO_PEERGROUPS`, unix(7)).
    ///
    /// # Errors
    /// Returns the error of `getsockopt(2)`.
    pub fn of_socket(socket: BorrowedFd<'_>) -> Result<Self, Refusal> {
        let failed = Refusal::at("cannot tell who asks");
        // struct ucred: the process id, which is 0 for one that this process has no number for, and the two others.
        let mut peer = [0; 3];
        let known = option(socket, libc::SO_PEERCRED, &mut peer).map_err(&failed)?;
        let mut groups = vec![0; MOST_GROUPS];
        let count = option(socket, libc::SO_PEERGROUPS, &mut groups).map_err(&failed)?;
        if known != peer.len() {
            return Err(failed(Errno::INVAL));
        }
        let groups = groups[..count].iter().map(|group| Gid::from_raw(*group)).collect();
        Ok(Self { uid: peer[1], gid: peer[2], groups })
    }

    /// Returns one with these ids and no other group.
    pub(crate) fn of_ids(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Vec::new() }
    }

    /// Checks that sudo names the same user, if it says something: a socket that somebody else made lends its
    /// maker's name.
    ///
    /// # Errors
    /// Returns that it names another.
    pub fn agrees_with_sudo(&self, sudo_uid: Option<&str>) -> Result<(), Refusal> {
        let is_other = |text: &&str| text.parse() != Ok(self.uid);
        let Some(text) = sudo_uid.filter(is_other) else { return Ok(()) };
        let what = format!("user id {text:?} called sudo, user id {} made the socket", self.uid);
        Err(Refusal::plain(what))
    }

    /// Does something with the rights of the caller, and none of root's over files (capabilities(7)). Ends the
    /// process if root's cannot be regained.
    ///
    /// # Errors
    /// Returns the error of `setresuid(2)`, `setresgid(2)` or `setgroups(2)`.
    pub fn act<T>(&self, work: impl FnOnce() -> T) -> Result<T, Errno> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(None, Gid::from_raw(self.gid), None)?;
        set_thread_res_uid(None, Uid::from_raw(self.uid), None)?;
        let done = work();
        let root = (Uid::ROOT, Gid::ROOT);
        let restored = set_thread_res_uid(None, root.0, None)
            .and_then(|()| set_thread_res_gid(None, root.1, None))
            .and_then(|()| set_thread_groups(&[]));
        if restored.is_err() {
            std::process::abort();
        }
        Ok(done)
    }
}

/// Asks a socket for something that is a list of numbers, and returns how many there are.
fn option(socket: BorrowedFd<'_>, name: libc::c_int, numbers: &mut [u32]) -> Result<usize, Errno> {
    let mut length = size_of_val(numbers) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `numbers`, which has room for as many and outlives the
    // call, and any bits are a number.
    let returned = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if returned != 0 {
        return Err(last_error());
    }
    Ok(length as usize / size_of::<u32>())
}

#[cfg(test)]
mod tests;
