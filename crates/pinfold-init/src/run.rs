//! Process 1: start the command, then wait for its end, its stops, orphans and orders.

use std::os::fd::{AsFd, FromRawFd, OwnedFd};

use pinfold_wire::{Channel, Ended, Order, Received, Report, Step};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::stdio::{self, Streams};
use crate::watch::Watch;
use crate::{Command, Failure};

/// What init needs once the boundary has made the inside.
pub struct Start {
    /// What to run.
    pub command: Command,
    /// Its streams.
    pub streams: Streams,
    /// Limits that no control group enforces.
    pub watch: Watch,
    /// When each step of the boundary ended, in monotonic nanoseconds.
    pub times: Vec<(Step, u64)>,
}

/// Runs the command to its end and reports it. The caller exits after this returns, and with it
/// everything inside ends.
///
/// `restrict` runs in the command's process as the last thing before its streams are in place
/// and it is executed.
///
/// # Errors
/// Whatever kept the command from being started.
pub fn run(
    mut start: Start,
    channel: &Channel,
    restrict: impl FnOnce() -> Result<(), Errno>,
) -> Result<(), Failure> {
    let signals = block_signals().map_err(Failure::at(Step::Execute))?;
    let mut prepared = start.command.prepare()?;
    let terminal = if start.streams.wants_terminal() {
        let opened = stdio::open_terminal(start.streams.window);
        Some(opened.map_err(Failure::at(Step::Terminal))?)
    } else {
        rustix::process::setsid().map_err(Failure::at(Step::Terminal))?;
        None
    };
    if let Some(terminal) = &terminal {
        let sent = channel.send(&Report::Terminal, &[terminal.controller.as_fd()]);
        sent.map_err(|_| Failure::at(Step::Terminal)(Errno::PIPE))?;
    }
    start.times.push((Step::Terminal, now()));
    let Some(variables) = wait_for_start(channel) else { return Ok(()) };
    prepared.add_variables(variables)?;
    let command = crate::vfork::spawn(|| {
        let failure = prepared.become_command(&start.streams, terminal.as_ref(), restrict);
        let _ = channel.send(&failure.report(), &[]);
    })
    .map_err(Failure::at(Step::Execute))?;
    start.times.push((Step::Execute, now()));
    // The streams and the terminal belong to the command alone now, or no reader would ever
    // see their end.
    drop((start.streams, terminal));
    Loop { channel, signals, command, watch: start.watch, times: start.times }.until_end();
    Ok(())
}

/// Waits for the order to start, with variables that were not known before; `None` when the
/// supervisor is gone.
fn wait_for_start(channel: &Channel) -> Option<Vec<Vec<u8>>> {
    loop {
        match channel.receive::<Order>() {
            Ok(Some(Received { message: Order::Start(variables), .. })) => return Some(variables),
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

struct Loop<'a> {
    channel: &'a Channel,
    signals: OwnedFd,
    command: Pid,
    watch: Watch,
    times: Vec<(Step, u64)>,
}

impl Loop<'_> {
    fn until_end(mut self) {
        while self.turn() {}
    }

    /// Waits for one thing and deals with it; false when it is time to end.
    fn turn(&mut self) -> bool {
        let mut ready =
            [PollFd::new(self.channel, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        let timeout = self.watch.patience().map(|patience| Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: i64::from(patience.subsec_nanos()),
        });
        match rustix::event::poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return false,
        }
        let (ordered, signalled) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if let Some(limit) = self.watch.look() {
            let _ = self.channel.send(&Report::Limit(limit), &[]);
            if self.watch.ends(limit) {
                return false;
            }
        }
        (!signalled || self.children()) && (!ordered || self.order())
    }

    fn order(&self) -> bool {
        match self.channel.receive::<Order>() {
            Ok(Some(received)) => {
                match received.message {
                    Order::Signal(number) => self.signal(number),
                    Order::Socket => self.pass_socket(),
                    Order::Cover(_) | Order::Mapped | Order::Seal(_) | Order::Start(_) => {}
                }
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn signal(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            // A group that has just ended needs no signal.
            let _ = rustix::process::kill_process_group(self.command, signal);
        }
    }

    /// Without a socket the supervisor's client waits in vain, which it does not do for long.
    fn pass_socket(&self) {
        if let Ok(socket) = crate::doors::outlet() {
            let _ = self.channel.send(&Report::Socket, &[socket.as_fd()]);
        }
    }

    /// Reaps every child that has something to say; false once the command itself has ended.
    fn children(&mut self) -> bool {
        let mut drain = [0_u8; 1024];
        // Only the fact that a child changed counts, not how often it was signalled.
        let _ = rustix::io::read(&self.signals, &mut drain);
        let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        while let Ok(Some((pid, status))) = rustix::process::wait(options) {
            if pid != self.command {
                continue;
            }
            if let Some(signal) = status.stopping_signal() {
                let _ = self.channel.send(&Report::Stopped(signal), &[]);
                continue;
            }
            let ended = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ended::Code(code as u8),
                (None, signal) => Ended::Signal(signal.unwrap_or(libc::SIGKILL) as u8),
            };
            // A limit that it has just run into is still there to be seen.
            if let Some(limit) = self.watch.last_look() {
                let _ = self.channel.send(&Report::Limit(limit), &[]);
            }
            let _ = self.channel.send(&Report::Times(std::mem::take(&mut self.times)), &[]);
            let _ = self.channel.send(&Report::Ended(ended), &[]);
            return false;
        }
        true
    }
}

/// Blocks every signal and returns a descriptor that is readable when a child changes.
fn block_signals() -> Result<OwnedFd, Errno> {
    // SAFETY: the sets are initialised before use and outlive the calls; signalfd returns a new
    // descriptor that nobody else owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(Errno::NOSYS) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
