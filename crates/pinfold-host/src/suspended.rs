//! A session that somebody has suspended: its supervisor is stopped (Ctrl-Z, SIGSTOP), and answers nobody until
//! it goes on.

use std::fs;

use pinfold_wire::Channel;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::Refusal;
use crate::directories::Places;
use crate::sessions::supervisor_of;

/// Makes sure that the session at the other end goes on.
///
/// # Errors
/// Returns an error if it is suspended.
pub fn goes_on(channel: &Channel) -> Result<(), Refusal> {
    refuse(supervisor(channel))
}

/// Makes sure that a live session goes on that takes no connection.
///
/// # Errors
/// Returns an error if it is suspended.
pub fn session_goes_on(places: &Places, session: &str) -> Result<(), Refusal> {
    refuse(supervisor_of(places, session))
}

fn refuse(supervisor: Option<Pid>) -> Result<(), Refusal> {
    match supervisor.filter(|pid| is_stopped(*pid)) {
        None => Ok(()),
        Some(pid) => {
            let hint = format!(
                "`fg` brings it back where it was started, `kill -CONT {}` from elsewhere; `pinfold stop` \
                 ends it",
                pid.as_raw_nonzero()
            );
            Err(Refusal::new("the session is suspended").with_hint(Some(hint)))
        }
    }
}

/// Returns whether a live session is suspended.
#[must_use]
pub fn is_suspended(places: &Places, session: &str) -> bool {
    session_goes_on(places, session).is_err()
}

/// Has a live session go on if it is suspended.
pub fn wake(places: &Places, session: &str) {
    if let Some(pid) = supervisor_of(places, session).filter(|pid| is_stopped(*pid)) {
        // One that has just ended needs no waking.
        let _ = rustix::process::kill_process(pid, Signal::CONT);
    }
}

/// Has it go on whenever it is suspended, until it has said something or ended. That a signal was sent to stop
/// it does not mean that it has stopped yet.
pub fn keep_awake(channel: &Channel) {
    let patience = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    loop {
        if let Some(pid) = supervisor(channel).filter(|pid| is_stopped(*pid)) {
            // One that has just ended needs no waking.
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
        let mut heard = [PollFd::new(channel, PollFlags::IN)];
        match rustix::event::poll(&mut heard, Some(&patience)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return,
        }
    }
}

/// Returns who listens there (unix(7), SO_PEERCRED).
fn supervisor(channel: &Channel) -> Option<Pid> {
    rustix::net::sockopt::socket_peercred(channel).ok().map(|peer| peer.pid)
}

/// Returns whether a process is stopped (proc_pid_stat(5), the field after its name, which may hold
/// anything).
fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let name_ends = stat.iter().rposition(|byte| *byte == b')');
    name_ends.and_then(|at| stat.get(at + 2)).is_some_and(|state| *state == b'T')
}
