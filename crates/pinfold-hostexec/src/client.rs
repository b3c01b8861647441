//! The socket to a command inside that asks.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pinfold_host::io::timespec;
use pinfold_wire::{Call, Frames, HostCommand, MAX_REQUEST, Reply, Wire as _, framed};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

/// How long a request may take to be sent: nobody is asked in that time.
const TO_SAY: Duration = Duration::from_secs(10);
/// How long the last words may take to be heard.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Why there is nothing more to be said to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parted {
    /// It has gone.
    Gone,
    /// It does not listen, and the time is over.
    Late,
    /// It says what has no meaning.
    Nonsense,
}

/// A client inside. Everything it says may be a lie.
#[derive(Debug, Clone)]
pub(crate) struct Client(Arc<OwnedFd>);

impl Client {
    /// Returns one that was accepted; reading and writing do not wait.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(Arc::new(socket))
    }

    /// Takes what it asks for. What it has said already of its input stays in the frames.
    ///
    /// # Errors
    /// Returns an error if it has gone, takes too long, or says something else.
    pub(crate) fn command(&self, frames: &mut Frames) -> Result<HostCommand, Parted> {
        let deadline = Instant::now() + TO_SAY;
        let mut said = Vec::new();
        loop {
            let Some(call) = self.call(frames, Some(deadline))? else { return Err(Parted::Gone) };
            let (part, is_last) = match call {
                Call::Part(part) => (part, false),
                Call::Run(rest) => (rest, true),
                Call::Input(_) | Call::InputEnd => return Err(Parted::Nonsense),
            };
            said.extend(part);
            if said.len() > MAX_REQUEST {
                return Err(Parted::Nonsense);
            }
            if is_last {
                return HostCommand::decode(&said).map_err(|_| Parted::Nonsense);
            }
        }
    }

    /// Returns the next that it says; `None` when it has gone.
    ///
    /// # Errors
    /// Returns an error if it takes too long, or says what has no meaning.
    pub(crate) fn call(
        &self,
        frames: &mut Frames,
        deadline: Option<Instant>,
    ) -> Result<Option<Call>, Parted> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(call) = frames.take().map_err(|_| Parted::Nonsense)? {
                return Ok(Some(call));
            }
            self.wait(PollFlags::IN, deadline)?;
            match rustix::net::recv(self.0.as_ref(), &mut buffer[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(None),
                Ok((_, count)) => frames.add(&buffer[..count]),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => return Ok(None),
            }
        }
    }

    /// Says something, as fast as it listens.
    ///
    /// # Errors
    /// Returns an error if it has gone, or does not listen until the deadline.
    pub(crate) fn say(&self, reply: &Reply, deadline: Instant) -> Result<(), Parted> {
        let frame = framed(reply);
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(self.0.as_ref(), rest, flags) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, Some(deadline))?,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Parted::Gone),
            }
        }
        Ok(())
    }

    /// Says the last thing. One that does not listen is its own loss.
    pub(crate) fn conclude(&self, reply: &Reply) {
        let _ = self.say(reply, Instant::now() + LAST_WORDS);
        self.part();
    }

    /// Ends the conversation in both directions.
    pub(crate) fn part(&self) {
        // One that has gone is what is wanted.
        let _ = rustix::net::shutdown(self.0.as_ref(), Shutdown::Both);
    }

    /// Ends hearing; what is left to be sent still is.
    pub(crate) fn stop_hearing(&self) {
        let _ = rustix::net::shutdown(self.0.as_ref(), Shutdown::Read);
    }

    /// Returns whether it has gone.
    pub(crate) fn has_gone(&self) -> bool {
        let mut gone = [self.until_gone()];
        let now = Timespec::default();
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut gone, Some(&now))) != Ok(0)
    }

    /// Returns what is ready when the client has gone.
    pub(crate) fn until_gone(&self) -> PollFd<'_> {
        PollFd::new(self.0.as_ref(), PollFlags::RDHUP)
    }

    fn wait(&self, flags: PollFlags, deadline: Option<Instant>) -> Result<(), Parted> {
        let mut wanted = [PollFd::new(self.0.as_ref(), flags)];
        let left = deadline
            .map(|deadline| deadline.saturating_duration_since(Instant::now()))
            .map(timespec);
        match rustix::event::poll(&mut wanted, left.as_ref()) {
            Ok(0) => Err(Parted::Late),
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(_) => Err(Parted::Gone),
        }
    }
}
