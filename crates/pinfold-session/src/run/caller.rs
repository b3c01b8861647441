//! The caller's end of a run: terminal, streams and signals.

use std::os::fd::OwnedFd;

use pinfold_boundary::Stdio;
use pinfold_host::sys;
use pinfold_terminal::caller::CallerTerminal;
use pinfold_terminal::stdio::{self, Moved, Streams};

use crate::detach;
use crate::outcome::RunError;
use crate::request::Request;

/// What a run holds of the process that it was started in.
pub(super) struct Caller {
    /// What signals come as, from now on.
    pub(super) signals: OwnedFd,
    /// Can be read once one of them asks to end.
    pub(super) interrupt: OwnedFd,
    /// What moves bytes between the caller's streams and the sandbox's.
    pub(super) moved: Moved,
    /// Whether the sandbox gets a terminal of its own.
    pub(super) wants_terminal: bool,
    /// Given back when it is dropped.
    pub(super) terminal: Option<CallerTerminal>,
}

impl Caller {
    /// Finds the caller's terminal, opens the streams of the command, and takes over the signals.
    ///
    /// # Errors
    /// Returns that the terminal cannot be used, or the error of opening a stream.
    pub(super) fn open(request: &Request) -> Result<(Self, Stdio), RunError> {
        let is_idle = request.argv.is_empty();
        let mut terminal =
            if is_idle { None } else { CallerTerminal::find().map_err(RunError::terminal)? };
        if let Some(terminal) = &mut terminal {
            terminal.guard().map_err(RunError::terminal)?;
        }
        let streams = match (is_idle, request.window) {
            (true, _) => stdio::nothing(),
            (false, Some(window)) => Ok(stdio::terminal(window, None)),
            (false, None) => stdio::streams(terminal.as_ref()),
        };
        let streams = streams.map_err(|errno| RunError::System(errno.into()))?;
        let wants_terminal = streams.wants_terminal();
        let Streams { stdio, mut moved } = streams;
        if request.background.is_some() {
            moved.bound(detach::LONGEST);
        }
        let signals = sys::signal_events().map_err(|errno| RunError::System(errno.into()))?;
        let interrupt = sys::interrupts().map_err(|errno| RunError::System(errno.into()))?;
        Ok((Self { signals, interrupt, moved, wants_terminal, terminal }, stdio))
    }
}
