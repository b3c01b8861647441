//! The socket of all users. Each connection is served by a process of its own; this one reads nothing of a caller's.
//!
//! systemd could start one for each connection (`Accept=yes`), but takes milliseconds for that, and starts nothing else
//! while connections wait. A user who connects again and again would keep all others waiting.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::accounts::local;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::serve::prepare;

/// At once, of one user. Further connections are closed, and their callers try again. All users who have no account in the
/// database, and for whom nothing was started yet, are one: a user may have thousands of ids (subuid(5)).
const MOST: usize = 16;

/// A connection that is served.
struct Served {
    uid: u32,
    /// Whose turns it is one of: the user's, or those of all who are unknown.
    turns: Option<u32>,
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
    let (mut served, mut known): (Vec<Served>, _) = (Vec::new(), BTreeSet::new());
    loop {
        let ends = served.iter().map(|one| one.end.as_fd());
        let mut waiting: Vec<PollFd<'_>> =
            ends.chain([socket]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        rustix::io::retry_on_intr(|| poll(&mut waiting, None))
            .map_err(Refusal::at("no connection can be taken"))?;
        let mut is_ready = waiting.iter().map(|one| !one.revents().is_empty()).collect::<Vec<_>>();
        let has_more = is_ready.pop() == Some(true);
        let mut has_ended = is_ready.into_iter();
        served.retain_mut(|one| has_ended.next() == Some(false) || !clear(one, &mut known));
        if !has_more {
            continue;
        }
        let Ok(connection) = accept_with(socket, SocketFlags::CLOEXEC) else {
            // Descriptors or memory are short for a while. All requests end with this process.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(Caller { uid, .. }) = Caller::of_socket(connection.as_fd()) else { continue };
        let turns = known.get(&uid).copied().or_else(|| local(|it| it.uid == uid).map(|it| it.uid));
        let has_room = served.iter().filter(|one| one.turns == turns).count() < MOST;
        if has_room && let Ok((process, end)) = start(connection) {
            served.push(Served { uid, turns, process, end });
        }
    }
}

/// Starts this program once more, for one connection.
#[expect(clippy::disallowed_methods, reason = "the runner has no launcher: its own executable")]
fn start(connection: OwnedFd) -> io::Result<(Child, OwnedFd)> {
    let mut command = Command::new("/proc/self/exe");
    let mut process = command.env_clear().process_group(0).stdin(connection).spawn()?;
    let end = pidfd_open(Pid::from_child(&process), PidfdFlags::empty());
    if end.is_err() {
        // Nobody would count and reap it.
        let _ = process.kill().and_then(|()| process.wait());
    }
    Ok((process, end?))
}

/// Reaps a process that has ended, after what it has left. Until then its number is no other group's. A user for whom it
/// started a session is known from then on.
fn clear(one: &mut Served, known: &mut BTreeSet<u32>) -> bool {
    let _ = kill_process_group(Pid::from_child(&one.process), Signal::KILL);
    one.process.wait().inspect(|status| known.extend(status.success().then_some(one.uid))).is_ok()
}
