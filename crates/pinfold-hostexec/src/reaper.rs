//! `pinfold host-run`: a process above a program that runs on the host for a sandbox.
//!
//! It inherits what the program leaves behind (`PR_SET_CHILD_SUBREAPER`, prctl(2)), so that all of
//! it can be ended: when the program's time is over, who asked has gone, the session's supervisor
//! dies, or simply at the end. A group of processes would be left by setsid(2).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use pinfold_host::io::timespec;
use pinfold_host::launcher::start_minded;
use pinfold_host::sys;
use pinfold_wire::Ended;
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

/// How long what was killed may take to be gone.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs a program, which sees `name` as its own, with this process's streams, directory and
/// environment, and ends everything that it leaves. `parent` is who started this process: it ends
/// with it.
///
/// # Errors
/// Returns the error of starting the program.
pub fn mind(program: &OsStr, name: &OsStr, args: &[OsString], parent: u32) -> io::Result<Ended> {
    end_with(parent)?;
    let events = sys::child_events()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let child = start_minded(program, name, args)?;
    let child = Pid::from_child(&child);
    let ended = loop {
        wait(&events, None)?;
        let mut is_asked_to_end = false;
        while let Some(signal) = sys::next_signal(&events) {
            is_asked_to_end |= signal == libc::SIGTERM;
        }
        match reaped(child) {
            Some(ended) => break ended,
            None if is_asked_to_end => break Ended::Signal(libc::SIGKILL as u8),
            None => {}
        }
    };
    end_all(&events)?;
    Ok(ended)
}

/// Has this process asked to end (SIGTERM) when its parent does, which is this one.
///
/// # Errors
/// Returns an error if the parent has gone already.
pub fn end_with(parent: u32) -> io::Result<()> {
    // The supervisor reads this signal as an event, and its children inherit that it is blocked.
    sys::release_signals();
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    if std::os::unix::process::parent_id() != parent {
        // It had gone before that was said.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Reaps what has ended; how the program did, if it is among them.
fn reaped(program: Pid) -> Option<Ended> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == program {
            ended = Some(how(status));
        }
    }
    ended
}

fn how(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Code(code as u8),
        (None, signal) => Ended::Signal(signal.unwrap_or(libc::SIGKILL) as u8),
    }
}

/// Kills the children, and those that become children by that, until there are none. What cannot be
/// killed (another user's) is left after a while.
fn end_all(events: &std::os::fd::OwnedFd) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        for child in children()? {
            // A process that has ended since is not reaped yet, so its number is still its own.
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return Ok(()),
            }
        }
        if Instant::now() >= deadline {
            return Ok(());
        }
        wait(events, Some(Duration::from_millis(20)))?;
        while sys::next_signal(events).is_some() {}
    }
}

/// Returns the processes whose parent this one is (proc_pid_stat(5)).
fn children() -> io::Result<Vec<Pid>> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // One that is gone by now is nobody's child.
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        // The name stands in brackets and may hold anything.
        let rest = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
        let parent = rest
            .split(|byte| *byte == b' ')
            .nth(2)
            .and_then(|text| str::from_utf8(text).ok()?.parse::<i32>().ok());
        if parent == Some(own) {
            children.extend(Pid::from_raw(pid));
        }
    }
    Ok(children)
}

fn wait(events: &std::os::fd::OwnedFd, patience: Option<Duration>) -> io::Result<()> {
    let mut ready = [PollFd::new(events, PollFlags::IN)];
    let patience = patience.map(timespec);
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, patience.as_ref()))?;
    Ok(())
}

/// Ends this process as the program ended.
pub fn end_as(ended: Ended) -> std::process::ExitCode {
    match ended {
        Ended::Code(code) => std::process::ExitCode::from(code),
        Ended::Signal(signal) => {
            sys::die_of(signal.into());
            std::process::ExitCode::from(128_u8.saturating_add(signal))
        }
    }
}
