//! The caller's terminal: raw while the sandbox has one of its own, and given back whatever
//! happens.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use pinfold_wire::{Attributes, Window};
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::termios::{OptionalActions, Termios, Winsize};

/// Returns how large the caller's terminal is, or as large as terminals have always been.
pub fn window() -> Window {
    const USUAL: Window = (24, 80);
    let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    let mut sizes = streams.into_iter().filter_map(|end| rustix::termios::tcgetwinsize(end).ok());
    let size = sizes.find(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or(USUAL, |size| (size.ws_row, size.ws_col))
}

/// A terminal in the caller's hands, with the modes it had at first.
pub struct CallerTerminal {
    descriptor: OwnedFd,
    saved: Termios,
    guardian: Option<Guardian>,
}

impl CallerTerminal {
    /// Returns the first of the caller's standard streams that is a terminal.
    ///
    /// # Errors
    /// Returns the error of reading its modes.
    pub fn find() -> Result<Option<Self>, Errno> {
        let streams = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let Some(stream) = streams.into_iter().find(|stream| rustix::termios::isatty(stream))
        else {
            return Ok(None);
        };
        let descriptor = rustix::io::fcntl_dupfd_cloexec(stream, 3)?;
        let saved = rustix::termios::tcgetattr(&descriptor)?;
        Ok(Some(Self { descriptor, saved, guardian: None }))
    }

    /// Rows and columns; a terminal that does not know says 0, which programs take as unknown.
    pub fn size(&self) -> (u16, u16) {
        rustix::termios::tcgetwinsize(&self.descriptor)
            .map_or((0, 0), |size| (size.ws_row, size.ws_col))
    }

    /// Starts the process that gives the terminal back if this one is killed. Call it while
    /// this process has one thread.
    ///
    /// # Errors
    /// Returns the error of `pipe(2)` and `fork(2)`.
    pub fn guard(&mut self) -> Result<(), Errno> {
        self.guardian = Some(Guardian::start(self.descriptor.as_fd(), &self.saved)?);
        Ok(())
    }

    /// Returns what it was set to at first, which the sandbox's terminal is to be.
    pub fn attributes(&self) -> Attributes {
        Attributes::of(&self.saved)
    }

    /// Gives the sandbox's terminal this one's size and makes this one raw, at first or after a
    /// stop.
    ///
    /// # Errors
    /// Returns the error of `tcsetattr(3)`.
    pub fn enter(&self, inside: BorrowedFd<'_>) -> Result<(), Errno> {
        self.resize(inside);
        self.raw()
    }

    /// Does the same for one whose window size comes another way.
    ///
    /// # Errors
    /// Returns the error of `tcsetattr(3)`.
    pub fn raw(&self) -> Result<(), Errno> {
        let mut raw = self.saved.clone();
        raw.make_raw();
        if let Some(guardian) = &self.guardian {
            guardian.order(Guardian::ARM);
        }
        rustix::termios::tcsetattr(&self.descriptor, OptionalActions::Drain, &raw)
    }

    /// Hands the caller's window size on.
    pub fn resize(&self, inside: BorrowedFd<'_>) {
        if let Ok(size) = rustix::termios::tcgetwinsize(&self.descriptor) {
            // A terminal inside that is gone has no size to set.
            let _ = rustix::termios::tcsetwinsize(inside, Winsize { ..size });
        }
    }

    /// Gives the terminal its first modes back.
    pub fn restore(&self) {
        // A terminal that is gone cannot be restored, and there is nobody to notify.
        let _ = rustix::termios::tcsetattr(&self.descriptor, OptionalActions::Drain, &self.saved);
        if let Some(guardian) = &self.guardian {
            guardian.order(Guardian::DISARM);
        }
    }

    /// Stops this process as what it runs inside was stopped, until somebody at the terminal continues
    /// it, and takes the terminal back then. Without a terminal nobody is there to continue it, and what
    /// runs inside must not be able to stop who watches it.
    pub fn stop(&self, inside: Option<&OwnedFd>) {
        self.restore();
        pinfold_host::sys::stop_self();
        if let Some(inside) = inside {
            // The terminal may be gone by now; then there is nothing to make raw.
            let _ = self.enter(inside.as_fd());
        }
    }

    /// Returns a descriptor to read from or write to.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for CallerTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

/// A small process that outlives a SIGKILL of this one, only to restore the terminal. Without
/// it the caller's shell would be left in raw mode.
struct Guardian {
    pid: Pid,
    orders: Option<OwnedFd>,
}

impl Guardian {
    /// The terminal is raw from now on.
    const ARM: u8 = b'a';
    /// The terminal is as it was.
    const DISARM: u8 = b'd';

    #[expect(clippy::disallowed_methods, reason = "a copy of this process, and no other program")]
    fn start(terminal: BorrowedFd<'_>, saved: &Termios) -> Result<Self, Errno> {
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // SAFETY: the caller says that this process has one thread, so the child may do
        // whatever it may do.
        match unsafe { libc::fork() } {
            0 => {
                pinfold_boundary::end_on_panic();
                drop(writer);
                Self::watch(&reader, terminal, saved);
                // SAFETY: _exit(2) has no preconditions; destructors belong to the parent.
                unsafe { libc::_exit(0) }
            }
            pid => match Pid::from_raw(pid).filter(|_| pid > 0) {
                Some(pid) => Ok(Self { pid, orders: Some(writer) }),
                None => Err(Errno::AGAIN),
            },
        }
    }

    /// Watches in the child: own process group, deaf to signals, holding nothing but the terminal
    /// and the pipe, until the pipe closes.
    fn watch(orders: &OwnedFd, terminal: BorrowedFd<'_>, saved: &Termios) {
        let _ = rustix::process::setpgid(None, None);
        pinfold_host::sys::block_all_signals();
        // One descriptor more is no reason to leave the terminal raw.
        let _ = pinfold_boundary::close_all_but(&[orders.as_fd(), terminal]);
        let mut armed = false;
        let mut order = [0_u8; 1];
        while let Ok(1) = rustix::io::retry_on_intr(|| rustix::io::read(orders, &mut order)) {
            armed = order[0] == Self::ARM;
        }
        if armed {
            // From a background group this needs SIGTTOU blocked, which it is.
            let _ = rustix::termios::tcsetattr(terminal, OptionalActions::Now, saved);
        }
    }

    fn order(&self, order: u8) {
        if let Some(orders) = &self.orders {
            // A guardian that was killed cannot be helped; the terminal is ours to restore.
            let _ = rustix::io::write(orders, &[order]);
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        self.orders = None;
        let _ = rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty());
    }
}
