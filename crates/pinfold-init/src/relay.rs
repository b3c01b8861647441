//! For a terminal that cannot leave the sandbox: the process between it and the one outside.
//!
//! No descriptor leaves gVisor's kernel, or that of a machine. So a process of the terminal's own session reads its
//! controlling side, and exchanges messages with a process outside that has a terminal of the host's in its place
//! ([`LineIn`], [`LineOut`]). gVisor's terminals of 2022 signal the foreground neither when a key asks
//! for it nor when the window changes: this process does both. Those of 2024 signal for every such key, asked
//! or not: they never see one that has a name.

mod keys;

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use pinfold_wire::{Channel, LineIn, LineOut};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitStatus};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use crate::fds::close_all_but;
use crate::gvisor;
use crate::stdio::{self, Terminal};
use keys::Key;

/// Bytes that cross at once: as many as a terminal takes (N_TTY_BUF_SIZE, pty(7)).
const CHUNK: usize = 4096;

/// A process that stands between a terminal and the one outside.
pub(crate) struct Relay {
    process: Pid,
    /// Closed when nothing more will be written that has to be shown.
    ending: Option<OwnedFd>,
}

impl Relay {
    /// Starts it. The caller leads the terminal's session, and has one thread.
    ///
    /// # Errors
    /// Returns the error of `pipe(2)` and `fork(2)`.
    pub(crate) fn start(terminal: &Terminal, line: &Channel) -> Result<Self, Errno> {
        let (ending, held) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let process = crate::vfork::copy(|| {
            let kept = [terminal.controller.as_fd(), line.as_fd(), ending.as_fd()];
            if close_all_but(&kept).is_ok() {
                // Whatever the reason, the terminal is over; outside, the end of the line is seen.
                let (controller, ending) = (&terminal.controller, &ending);
                let _ = Ends { controller, line, ending, afterwards: AFTERWARDS }.serve();
            }
            // SAFETY: _exit(2) has no preconditions; destructors belong to the original.
            unsafe { libc::_exit(0) }
        })?;
        Ok(Self { process, ending: Some(held) })
    }

    pub(crate) fn is(&self, process: Pid) -> bool {
        self.process == process
    }

    /// Returns what is kept open for it.
    pub(crate) fn held(&self) -> Option<&OwnedFd> {
        self.ending.as_ref()
    }

    /// Notes that the command has ended: this process ends when everything was shown.
    pub(crate) fn end(&mut self) -> Pid {
        self.ending = None;
        self.process
    }

    /// Takes notice of a change of its process; whether it has ended. That it was stopped can only have
    /// been somebody inside, who would stop the end of the command with it.
    pub(crate) fn has_ended(&self, status: WaitStatus) -> bool {
        let is_stopped = status.stopping_signal().is_some();
        if is_stopped {
            let _ = rustix::process::kill_process(self.process, Signal::CONT);
        }
        !is_stopped
    }
}

/// What a relay works with.
struct Ends<'a> {
    controller: &'a OwnedFd,
    line: &'a Channel,
    ending: &'a OwnedFd,
    afterwards: Afterwards,
}

/// What waits until there is room for it.
#[derive(Default)]
struct Pending {
    typed: Vec<u8>,
    written: Vec<u8>,
    /// Bytes that were written and have gone.
    passed: usize,
    /// Whether nobody has the user's side any more.
    is_closed: bool,
}

/// How much is shown of what goes on being written when the command has ended: more than a terminal holds that
/// takes whatever is written (gVisor's of 2022), and no less than can be shown in some time.
#[derive(Clone, Copy)]
struct Afterwards {
    bytes: usize,
    time: Duration,
}

const AFTERWARDS: Afterwards = Afterwards { bytes: 256 << 20, time: Duration::from_secs(10) };
/// Chunks that are moved before somebody is listened to.
const AT_ONCE: usize = 16;

/// Bytes that may wait to be read by a program. A key that asks for a signal is heard before they are.
const MOST_TYPED: usize = 64 * 1024;

impl Ends<'_> {
    /// Serves until the command has ended and all was shown, or the outside is gone.
    fn serve(&self) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(self.controller, true)?;
        self.line.offer(&LineOut::Open)?;
        let mut pending = Pending::default();
        // Since when the command has ended, and what had gone by then.
        let mut ended: Option<(Instant, usize)> = None;
        loop {
            let is_drained = self.pass_on(&mut pending)?;
            let is_over = ended.is_some_and(|(when, passed)| {
                let Afterwards { bytes, time } = self.afterwards;
                is_drained || (pending.passed - passed > bytes && when.elapsed() > time)
            });
            if is_over {
                return self.say_end();
            }
            match self.wait(&pending, ended.is_some())? {
                [true, ..] => ended = Some((Instant::now(), pending.passed)),
                [_, true] => match self.line.receive::<LineIn>() {
                    Ok(Some(received)) => self.hear(received.message, &mut pending),
                    Ok(None) | Err(_) => {
                        self.hang_up();
                        return Ok(());
                    }
                },
                _ => {}
            }
        }
    }

    /// Waits until something can be done; whether the command has ended, and whether something was said.
    fn wait(&self, pending: &Pending, is_ending: bool) -> Result<[bool; 2], Errno> {
        let when = |is: bool, flag| if is { flag } else { PollFlags::empty() };
        let line = when(pending.typed.len() < MOST_TYPED, PollFlags::IN)
            | when(!pending.written.is_empty(), PollFlags::OUT);
        let terminal = when(pending.written.is_empty(), PollFlags::IN)
            | when(!pending.typed.is_empty(), PollFlags::OUT);
        let mut ready = vec![PollFd::new(self.line, line)];
        // A closed descriptor is reported at once, whatever was asked for, and only once.
        ready.extend((!is_ending).then(|| PollFd::new(self.ending, PollFlags::IN)));
        ready.extend((!pending.is_closed).then(|| PollFd::new(self.controller, terminal)));
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))?;
        let ended = !is_ending && !ready[1].revents().is_empty();
        let said = ready[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        Ok([ended, said])
    }

    /// Moves what there is room for, and not for ever; whether nothing is left that was written.
    fn pass_on(&self, pending: &mut Pending) -> Result<bool, Errno> {
        if !pending.typed.is_empty() {
            match self.give(&pending.typed) {
                Ok(count) => drop(pending.typed.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                // Nobody will read it.
                Err(_) => pending.typed.clear(),
            }
        }
        for _ in 0..AT_ONCE {
            if !pending.written.is_empty() {
                match self.line.offer(&LineOut::Written(pending.written.clone())) {
                    Ok(()) => pending.passed += std::mem::take(&mut pending.written).len(),
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(errno) => return Err(errno),
                }
            }
            pending.written.resize(CHUNK, 0);
            let read = rustix::io::read(self.controller, &mut pending.written[..]);
            pending.is_closed = matches!(read, Ok(0) | Err(Errno::IO));
            pending.written.truncate(read.unwrap_or(0));
            if pending.written.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives a program what was typed for it. gVisor's terminals of 2024 signal for keys that it reads
    /// itself, too (ISIG is off), so no such key has a name during that time. Modes that the program
    /// changes in these microseconds stay, except these names.
    fn give(&self, typed: &[u8]) -> Result<usize, Errno> {
        let modes = tcgetattr(self.controller).ok();
        let Some(modes) = modes.filter(|modes| keys::are_named(typed, modes)) else {
            return rustix::io::write(self.controller, typed);
        };
        // What cannot be set is as the terminal has it; the key is given all the same.
        let set = |modes: &Termios| tcsetattr(self.controller, OptionalActions::Now, modes);
        let _ = set(&keys::without(&modes));
        let given = rustix::io::write(self.controller, typed);
        if let Ok(mut since) = tcgetattr(self.controller) {
            keys::name_as(&mut since, &modes);
            let _ = set(&since);
        }
        given
    }

    fn hear(&self, said: LineIn, pending: &mut Pending) {
        match said {
            LineIn::Typed(bytes) => self.type_in(bytes, pending),
            LineIn::Window(window) => {
                // A terminal that is gone has no size.
                let _ = stdio::set_window(self.controller, window);
                self.signal(Signal::WINCH);
            }
            LineIn::Shown => {}
        }
    }

    /// Types as a terminal of Linux takes it (termios(3), ISIG): a key that means a signal is nobody's
    /// input, and what was typed before it and not read is dropped.
    fn type_in(&self, mut bytes: Vec<u8>, pending: &mut Pending) {
        while let Ok(modes) = tcgetattr(self.controller)
            && let Some((at, key)) = keys::first(&bytes, &modes)
        {
            if modes.local_modes.contains(LocalModes::NOFLSH) {
                pending.typed.extend(&bytes[..at]);
            } else {
                pending.typed.clear();
            }
            if modes.local_modes.contains(LocalModes::ECHO) {
                pending.written.extend(keys::echo(bytes[at], &modes));
                // Seen before whatever the signal does.
                let _ = self.pass_on(pending);
            }
            bytes.drain(..=at);
            self.signal(match key {
                Key::Interrupt => Signal::INT,
                Key::Quit => Signal::QUIT,
                Key::Suspend => Signal::TSTP,
            });
        }
        pending.typed.extend(bytes);
    }

    /// Signals the foreground group.
    fn signal(&self, signal: Signal) {
        // It is asked of the user's side only, which nobody holds for long: it would never seem closed.
        // A group that has just ended needs no signal.
        let _ = gvisor::open_user_side(self.controller)
            .and_then(tcgetpgrp)
            .and_then(|group| rustix::process::kill_process_group(group, signal));
    }

    /// Hangs up, as if somebody had unplugged the terminal (termios(3), modem disconnect).
    fn hang_up(&self) {
        self.signal(Signal::HUP);
        self.signal(Signal::CONT);
    }

    /// Says that all was said, and waits until all was shown: with the end of the command, of which the
    /// supervisor hears next, everything in and next to it may end.
    fn say_end(&self) -> Result<(), Errno> {
        self.line.send(&LineOut::End, &[]).map_err(|_| Errno::PIPE)?;
        while let Ok(Some(received)) = self.line.receive::<LineIn>() {
            if received.message == LineIn::Shown {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
