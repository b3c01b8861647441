//! A program that takes long, for a user who watches it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::Launcher;
use crate::process::ENVIRONMENT;
use crate::sys;

/// How long a program may take to end once it was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How such a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// Its exit status; none if a signal ended it.
    pub code: Option<i32>,
    /// The signal that asked this process to end while the program ran, if one did.
    pub interrupted: Option<i32>,
}

impl Launcher {
    /// Runs a program to its end in `/`, however long it takes, with these of the caller's variables and the
    /// few that let it find its configuration. Both outputs are passed on as they come. A signal that asks
    /// this process to end ends the program, and returns to the caller.
    ///
    /// # Errors
    /// Returns the error of starting it.
    pub fn run_watched(
        &self,
        argv: Vec<OsString>,
        kept: &[&str],
        report: &mut dyn FnMut(&[u8]),
    ) -> io::Result<Watched> {
        let mut command = self.prepare(argv, ENVIRONMENT.iter().chain(kept), &[], None)?;
        let (output, its) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&output, true)?;
        let events = sys::signal_events()?;
        sys::unblock_signals_of(&mut command);
        // Keys are for this process, which passes on what they mean.
        command.stdin(Stdio::null()).stdout(its.try_clone()?).stderr(its).process_group(0);
        let started = command.spawn();
        // It holds what the program writes to.
        drop(command);
        let watched = started.and_then(|child| watch(child, &output, &events, report));
        sys::release_signals();
        watched
    }
}

/// Watches a program from its start to its end.
fn watch(
    mut child: Child,
    output: &OwnedFd,
    events: &OwnedFd,
    report: &mut dyn FnMut(&[u8]),
) -> io::Result<Watched> {
    let group = Pid::from_child(&child);
    let process = rustix::process::pidfd_open(group, PidfdFlags::empty())?;
    let mut interrupted = None;
    let mut deadline: Option<Instant> = None;
    let mut is_open = true;
    loop {
        let mut wanted = vec![
            PollFd::new(&process, PollFlags::IN),
            PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
        ];
        if is_open {
            wanted.push(PollFd::from_borrowed_fd(output.as_fd(), PollFlags::IN));
        }
        let left = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            .map(Timespec::try_from)
            .transpose()
            .map_err(io::Error::other)?;
        match rustix::event::poll(&mut wanted, left.as_ref()) {
            // It has not been waited for, so the id is its group's.
            Ok(0) => {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                deadline = None;
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let has_ended = !wanted[0].revents().is_empty();
        is_open = is_open && take(output, report);
        while let Some(number) = sys::next_signal(events) {
            if asks_to_end(number) {
                interrupted = Some(number);
                deadline = deadline.or(Some(Instant::now() + GRACE));
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = rustix::process::kill_process_group(group, signal);
                }
            }
        }
        if has_ended {
            return Ok(Watched { code: child.wait()?.code(), interrupted });
        }
    }
}

fn asks_to_end(signal: i32) -> bool {
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal)
}

/// Tells what is there; whether more may come.
fn take(output: &OwnedFd, report: &mut dyn FnMut(&[u8])) -> bool {
    let mut buffer = [0; 16 << 10];
    loop {
        match rustix::io::read(output, &mut buffer) {
            Ok(0) => return false,
            Ok(count) => report(&buffer[..count]),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
    }
}
