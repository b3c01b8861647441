//! A live session as a library sees it: programs and tools in it, with streams of one's own.

use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::time::Duration;

use pinfold_host::directories::Places;
use pinfold_host::ipc::Json;
use pinfold_policy::env::{EnvName, Owner, reserved};
use pinfold_tools::Tools;
use pinfold_wire::{Channel, Ended, Step, StreamEnd, Streams, Window};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::termios::Winsize;

use super::client::{self, gone, refused, send};
use super::exec::{program, request};
use super::message::{Answer, Request};
use super::{Exec, ExecEnd};
use crate::outcome::{RunError, status};

/// A live session.
#[derive(Debug, Clone)]
pub struct Session {
    places: Places,
    name: String,
}

/// Something that runs in a session. Dropped, it is ended with all that it has started.
#[derive(Debug)]
pub struct Running {
    channel: Channel,
    /// Where its terminal comes to be, if it is to have one.
    terminal: Option<OnceLock<OwnedFd>>,
}

impl Session {
    /// Returns the session that is called so, or whose name begins so.
    ///
    /// # Errors
    /// Returns an error if there is no such session, or more than one.
    pub fn find(places: &Places, name: &str) -> Result<Self, RunError> {
        let (name, _) = client::named(places, Some(name))?;
        Ok(Self { places: places.clone(), name })
    }

    /// Returns its own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts something with these as its input, output and error output. They should be pipes: what
    /// is handed in can be done with as the session likes.
    ///
    /// # Errors
    /// Returns an error for a session that has ended.
    pub fn start(&self, exec: Exec, streams: [OwnedFd; 3]) -> Result<Running, RunError> {
        let descriptors: Vec<_> = streams.iter().map(AsFd::as_fd).collect();
        let ends = Streams::plain([StreamEnd::Descriptor; 3]);
        let channel = self.begin(exec, ends, &descriptors)?;
        Ok(Running { channel, terminal: None })
    }

    /// Starts something in a terminal of this size, which is there ([`Running::terminal`]) once it was
    /// [heard](Running::hear) of.
    ///
    /// # Errors
    /// Returns an error for a session that has ended.
    pub fn start_in_terminal(&self, exec: Exec, window: Window) -> Result<Running, RunError> {
        let ends = Streams::terminal(window);
        let channel = self.begin(exec, ends, &[])?;
        Ok(Running { channel, terminal: Some(OnceLock::new()) })
    }

    fn begin(
        &self,
        exec: Exec,
        streams: Streams,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Channel, RunError> {
        let channel = client::find(&self.places, Some(&self.name))?;
        send(&channel, request(&exec))?;
        channel.command(&program(exec), streams, descriptors).map_err(|_| gone())?;
        Ok(channel)
    }

    /// Returns the session's tools.
    ///
    /// # Errors
    /// Returns an error for a session that has ended, or is still starting.
    pub fn tools(&self) -> Result<Tools, RunError> {
        let channel = client::find(&self.places, Some(&self.name))?;
        let (own, theirs) = rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .map_err(|errno| RunError::System(errno.into()))?;
        channel.send(&Json(Request::Tools), &[theirs.as_fd()]).map_err(|_| gone())?;
        drop(theirs);
        match client::receive(&channel)? {
            Answer::Done => Tools::new(own).map_err(RunError::thread),
            answer => Err(refused(answer)),
        }
    }

    /// Ends it, and waits until it has cleaned up ([`super::stop`]).
    ///
    /// # Errors
    /// Returns an error for a session that has ended.
    pub fn stop(&self, grace: Duration) -> Result<(), RunError> {
        super::stop(&self.places, &self.name, grace)
    }
}

impl Running {
    /// Sends a signal to its process groups.
    pub fn signal(&self, signal: i32) {
        // One that has ended hears none.
        drop(self.channel.send(&Json(Request::Signal(signal)), &[]));
    }

    /// Ends it with all that it has started, however often that has forked.
    pub fn kill(&self) {
        drop(self.channel.send(&Json(Request::Kill), &[]));
    }

    /// Returns the outer side of its terminal, for bytes in both directions.
    #[must_use]
    pub fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.terminal.as_ref()?.get().map(AsFd::as_fd)
    }

    /// Gives its terminal another size.
    ///
    /// # Errors
    /// Returns an error if it has none.
    pub fn resize(&self, (rows, columns): Window) -> Result<(), RunError> {
        let terminal =
            self.terminal().ok_or_else(|| RunError::refused("it has no terminal", None))?;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(terminal, size)
            .map_err(|errno| RunError::System(errno.into()))
    }

    /// Waits for its end. What it has written may still be on its way.
    ///
    /// # Errors
    /// Returns an error for a command that cannot be executed; a session that ends before.
    pub fn wait(&self) -> Result<ExecEnd, RunError> {
        loop {
            if let Some(end) = self.hear()? {
                return Ok(end);
            }
        }
    }

    /// Takes one word of it, waiting for it; gives its end if that was it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::wait`].
    pub fn hear(&self) -> Result<Option<ExecEnd>, RunError> {
        let Ok(Some(received)) = self.channel.receive::<Json<Answer>>() else { return Err(gone()) };
        match (received.message.0, &self.terminal) {
            // There is no shell that would continue it.
            (Answer::Stopped, _) => {
                self.signal(libc::SIGCONT);
                Ok(None)
            }
            (Answer::Terminal, Some(place)) => {
                let terminal = received
                    .descriptors
                    .into_iter()
                    .next()
                    .filter(|terminal| rustix::termios::isatty(terminal))
                    .ok_or_else(gone)?;
                // There is one; more can only be a sandbox that is up to something.
                let _ = place.set(terminal);
                Ok(None)
            }
            (answer, _) => end_of(answer).map(Some),
        }
    }
}

impl AsFd for Running {
    /// Returns a descriptor that is readable when there is something to [hear](Self::hear).
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// Returns a variable for something that is run: the session's own user may set what the user may set at
/// its start.
///
/// # Errors
/// Returns an error for a name that is invalid, or is reserved.
pub fn variable(name: &str, value: &str) -> Result<(OsString, OsString), RunError> {
    let name: EnvName = name.parse().map_err(|error| RunError::refused(error, None))?;
    match reserved(&name).filter(|reserved| reserved.owner > Owner::User) {
        Some(reserved) => {
            Err(RunError::refused(format!("{name} is reserved: {}", reserved.reason), None))
        }
        None => Ok((name.as_str().into(), value.into())),
    }
}

/// Returns the end that an answer reports.
///
/// # Errors
/// Returns what is no end.
pub(super) fn end_of(answer: Answer) -> Result<ExecEnd, RunError> {
    match answer {
        Answer::Code(code, limit) => {
            let status = status(Ended::Code(code), limit);
            Ok(ExecEnd { status, limit, interrupted: false })
        }
        Answer::Killed(signal, limit) => {
            let status = status(Ended::Signal(signal), limit);
            Ok(ExecEnd { status, limit, interrupted: i32::from(signal) == libc::SIGINT })
        }
        Answer::Failed(errno, what) => Err(RunError::not_begun(Step::Execute, errno, &what)),
        answer => Err(refused(answer)),
    }
}
