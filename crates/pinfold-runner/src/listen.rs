//! The socket of all users. Each connection is served by a process of its own; this one reads nothing of a caller's.
//!
//! systemd could start one for each connection (`Accept=yes`), but takes milliseconds for that, and starts nothing else
//! while connections wait. A user who connects again and again would keep all others waiting.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::serve::prepare;

/// At once, of one user. Further connections are closed, and their callers try again.
const MOST: usize = 16;

/// A connection that is served.
struct Served {
    uid: u32,
    process: Child,
    /// Readable when the process has ended.
    end: OwnedFd,
}

/// Serves all connections to a socket.
///
/// # Errors
/// Returns that no more connections can be taken.
pub fn listen(socket: BorrowedFd<'_>) -> Result<String, Refusal> {
    prepare(socket)?;
    let failed = Refusal::at("no connection can be taken");
    let mut served: Vec<Served> = Vec::new();
    loop {
        let ends = served.iter().map(|one| one.end.as_fd());
        let mut waiting: Vec<PollFd<'_>> =
            ends.chain([socket]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        rustix::io::retry_on_intr(|| poll(&mut waiting, None)).map_err(&failed)?;
        let mut is_ready = waiting.iter().map(|one| !one.revents().is_empty()).collect::<Vec<_>>();
        let has_more = is_ready.pop() == Some(true);
        let mut has_ended = is_ready.into_iter();
        served.retain_mut(|one| has_ended.next() == Some(false) || !clear(one));
        if !has_more {
            continue;
        }
        let connection = accept_with(socket, SocketFlags::CLOEXEC).map_err(&failed)?;
        let Ok(Caller { uid, .. }) = Caller::of_socket(connection.as_fd()) else { continue };
        let has_room = served.iter().filter(|one| one.uid == uid).count() < MOST;
        if has_room && let Ok((process, end)) = start(connection) {
            served.push(Served { uid, process, end });
        }
    }
}

/// Starts this program once more, for one connection.
#[expect(clippy::disallowed_methods, reason = "the runner has no launcher: its own executable")]
fn start(connection: OwnedFd) -> io::Result<(Child, OwnedFd)> {
    let mut command = Command::new("/proc/self/exe");
    let process = command.env_clear().process_group(0).stdin(connection).spawn()?;
    let end = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
    Ok((process, end))
}

/// Reaps a process that has ended, after what it has left. Until then its number is no other group's.
fn clear(one: &mut Served) -> bool {
    let _ = kill_process_group(Pid::from_child(&one.process), Signal::KILL);
    one.process.wait().is_ok()
}
