//! The outer end of a line: a terminal of the host's, in the place of one that cannot leave an engine's
//! kernel. What is set on it is nothing: the terminal inside does what terminals do.

use std::os::fd::{AsFd as _, OwnedFd};

use pinfold_wire::{Channel, LineIn, LineOut, Report, Step, Window};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{OptionalActions, Winsize};

/// Bytes that cross at once: as many as a terminal takes (N_TTY_BUF_SIZE, pty(7)).
const CHUNK: usize = 4096;

/// A line, and whose it is.
pub(super) struct Line {
    /// The task's, or the command's.
    pub(super) task: Option<u32>,
    /// How large the terminal is at first.
    pub(super) window: Option<Window>,
    /// Between this process and the one inside, which may say anything.
    pub(super) channel: Channel,
}

/// What waits until there is room for it.
#[derive(Default)]
struct Pending {
    typed: Vec<u8>,
    /// Whether the window has changed.
    resized: bool,
    written: Vec<u8>,
    /// Whether nothing more will be written.
    is_over: bool,
}

impl Line {
    /// Serves it to its end. The controlling side of the terminal goes to the supervisor once there is one
    /// inside.
    pub(super) fn serve(&self, terminals: &OwnedFd, reports: &Channel) {
        if self.hear() != Ok(LineOut::Open) {
            return;
        }
        match self.open(terminals, reports) {
            Ok((user, signals)) => {
                // Either end is gone: so is the terminal.
                let _ = self.carry(&user, &signals);
            }
            Err(errno) => self.fail(reports, errno),
        }
    }

    /// Says that there will be no terminal; a task is ended for that.
    pub(super) fn fail(&self, reports: &Channel, errno: Errno) {
        let (errno, detail) = (errno.raw_os_error(), Vec::new());
        let report = match self.task {
            Some(id) => Report::TaskTerminal(id),
            None => Report::Failed { step: Step::Terminal, errno, detail },
        };
        let _ = reports.send(&report, &[]);
    }

    /// Opens the terminal, of whose session this process is the only member, to hear of its window.
    fn open(&self, terminals: &OwnedFd, reports: &Channel) -> Result<(OwnedFd, OwnedFd), Errno> {
        let signals = pinfold_init::block_signals(libc::SIGWINCH)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let controller = rustix::fs::openat(terminals, "ptmx", flags, Mode::empty())?;
        rustix::pty::unlockpt(&controller)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = rustix::pty::ioctl_tiocgptpeer(&controller, flags)?;
        let mut modes = rustix::termios::tcgetattr(&user)?;
        modes.make_raw();
        rustix::termios::tcsetattr(&user, OptionalActions::Now, &modes)?;
        if let Some((rows, columns)) = self.window {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            rustix::termios::tcsetwinsize(&user, size)?;
        }
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(&user)?;
        rustix::io::ioctl_fionbio(&user, true)?;
        let report = self.task.map_or(Report::Terminal, Report::TaskTerminal);
        reports.send(&report, &[controller.as_fd()]).map_err(|_| Errno::PIPE)?;
        Ok((user, signals))
    }

    /// Carries bytes until all was shown, or one of the ends is gone.
    fn carry(&self, user: &OwnedFd, signals: &OwnedFd) -> Result<(), Errno> {
        let mut pending = Pending::default();
        loop {
            self.pass_on(user, &mut pending)?;
            if pending.is_over && pending.written.is_empty() {
                return self.channel.offer(&LineIn::Shown);
            }
            let when = |is: bool, flag| if is { flag } else { PollFlags::empty() };
            let is_said = pending.typed.is_empty() && !pending.resized;
            let line =
                when(pending.written.is_empty(), PollFlags::IN) | when(!is_said, PollFlags::OUT);
            let terminal = when(pending.typed.is_empty(), PollFlags::IN)
                | when(!pending.written.is_empty(), PollFlags::OUT);
            let mut ready = [
                PollFd::new(&self.channel, line),
                PollFd::new(user, terminal),
                PollFd::new(signals, PollFlags::IN),
            ];
            rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, None))?;
            let [line, terminal, signal] = ready.map(|end| end.revents());
            if !signal.is_empty() {
                // Only the fact that the window has changed counts, not how often.
                rustix::io::read(signals, &mut [0_u8; 1024])?;
                pending.resized = true;
            }
            if terminal.contains(PollFlags::HUP) {
                return Err(Errno::IO);
            }
            if line.contains(PollFlags::IN) {
                match self.hear()? {
                    LineOut::Written(bytes) => pending.written.extend(bytes),
                    LineOut::End => pending.is_over = true,
                    LineOut::Open => {}
                }
            } else if line.intersects(PollFlags::HUP | PollFlags::ERR) {
                return Err(Errno::PIPE);
            }
        }
    }

    /// Returns what the sandbox says next.
    fn hear(&self) -> Result<LineOut, Errno> {
        let received = self.channel.receive().ok().flatten().ok_or(Errno::PIPE)?;
        Ok(received.message)
    }

    /// Moves what there is room for.
    fn pass_on(&self, user: &OwnedFd, pending: &mut Pending) -> Result<(), Errno> {
        if !pending.written.is_empty() {
            let count = or_none(rustix::io::write(user, &pending.written))?;
            pending.written.drain(..count.unwrap_or(0));
        }
        if pending.resized {
            let size = rustix::termios::tcgetwinsize(user)?;
            let window = LineIn::Window((size.ws_row, size.ws_col));
            pending.resized = or_none(self.channel.offer(&window))?.is_none();
        }
        if pending.typed.is_empty() {
            let mut typed = [0; CHUNK];
            let count = or_none(rustix::io::read(user, &mut typed))?;
            if count == Some(0) {
                return Err(Errno::IO);
            }
            pending.typed.extend(&typed[..count.unwrap_or(0)]);
        }
        if !pending.typed.is_empty()
            && or_none(self.channel.offer(&LineIn::Typed(pending.typed.clone())))?.is_some()
        {
            pending.typed.clear();
        }
        Ok(())
    }
}

/// Returns what was done, if there was room for it.
fn or_none<T>(done: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests;
