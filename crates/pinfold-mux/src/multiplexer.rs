//! Moves bytes between the channel and the descriptors of its streams, in one thread.

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::descriptor::Descriptor;
use crate::endpoint::{Endpoint, Event, NONCE, Side};
use crate::error::{MuxError, OpenError};
use crate::frame::{MAX_PAYLOAD, StreamId};
use crate::local::Local;

/// The longest message in bytes of a socket that keeps their borders.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// What is read from the channel at once.
const CHUNK: usize = 64 * 1024;

/// What a multiplexer reports to its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The peer has answered; streams can be opened.
    Ready,
    /// The peer opened a stream. Attach it or refuse it.
    Opened {
        id: StreamId,
        /// What the peer says it is for.
        label: Vec<u8>,
    },
    /// A stream is over: everything that was sent was delivered, or somebody wanted no more of it.
    Closed(StreamId),
}

/// One end of a channel, with the descriptors of its streams.
#[derive(Debug)]
pub struct Multiplexer {
    endpoint: Endpoint,
    /// Nothing once it has failed.
    channel: Result<Descriptor, MuxError>,
    locals: BTreeMap<StreamId, Local>,
    notices: Vec<Notice>,
    buffer: Vec<u8>,
    message: Vec<u8>,
    /// The stream that is read first, so that each gets its turn.
    first: StreamId,
}

impl Multiplexer {
    /// Greets the guest through a channel.
    ///
    /// # Errors
    /// Returns the error of fstat(2), ioctl(2) or getrandom(2).
    pub fn host(channel: OwnedFd) -> Result<Self, Errno> {
        let mut nonce = [0; NONCE];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        Self::new(channel, Side::Host(nonce))
    }

    /// Waits for the host's greeting on a channel.
    ///
    /// # Errors
    /// Returns the error of fstat(2) or ioctl(2).
    pub fn guest(channel: OwnedFd) -> Result<Self, Errno> {
        Self::new(channel, Side::Guest)
    }

    fn new(channel: OwnedFd, side: Side) -> Result<Self, Errno> {
        Ok(Self {
            endpoint: Endpoint::new(side),
            channel: Ok(Descriptor::new(channel)?),
            locals: BTreeMap::new(),
            notices: Vec::new(),
            buffer: vec![0; CHUNK],
            message: Vec::new(),
            first: StreamId(0),
        })
    }

    /// Opens a stream. The label tells the peer what it is for.
    ///
    /// # Errors
    /// Returns why it cannot be opened.
    pub fn open(&mut self, label: &[u8], local: Local) -> Result<StreamId, OpenError> {
        let id = self.endpoint.open(label)?;
        self.attach(id, local);
        Ok(id)
    }

    /// Returns how many more streams can be opened now.
    #[must_use]
    pub fn opens_left(&self) -> u32 {
        self.endpoint.opens_left()
    }

    /// Attaches a stream that the peer opened. One that is over by now drops the descriptor.
    pub fn attach(&mut self, id: StreamId, mut local: Local) {
        local.begin(id, &mut self.endpoint);
        self.locals.insert(id, local);
        if self.endpoint.ended(id) == Some(false) {
            self.refuse(id);
        }
    }

    /// Ends both directions of a stream, whatever is under way.
    pub fn refuse(&mut self, id: StreamId) {
        self.locals.remove(&id);
        self.endpoint.abort(id);
        self.endpoint.stop(id);
    }

    /// Returns the streams that have a local descriptor.
    pub fn attached(&self) -> impl Iterator<Item = StreamId> {
        self.locals.keys().copied()
    }

    /// Returns whether a local descriptor is still read, or something that was read has not gone.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        !self.endpoint.output().is_empty() || self.locals.values().any(Local::is_read)
    }

    /// Returns whether something that came is still to be written to a local descriptor.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        self.locals.keys().any(|id| !self.endpoint.held(*id).0.is_empty())
    }

    /// Waits until something can be moved, one of `watched` can be read, or the time is over, and moves it.
    /// Returns which of `watched` can be read, and what the peer did.
    ///
    /// # Errors
    /// Returns why the channel is closed, now and in each later call. No stream is attached then.
    pub fn turn(
        &mut self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<(Vec<bool>, Vec<Notice>), MuxError> {
        let done = self.wait(watched, timeout).and_then(|ready| {
            self.move_bytes(&ready)?;
            Ok(ready.watched)
        });
        match done {
            Ok(ready) => Ok((ready, std::mem::take(&mut self.notices))),
            Err(error) => {
                self.channel = Err(error);
                self.locals.clear();
                self.notices.clear();
                Err(error)
            }
        }
    }

    fn wait(
        &self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Ready, MuxError> {
        let channel = self.channel.as_ref().map_err(|error| *error)?;
        let has_output = !self.endpoint.output().is_empty();
        let output = if has_output { PollFlags::OUT } else { PollFlags::empty() };
        let mut polled = vec![PollFd::new(channel, PollFlags::IN | output)];
        polled.extend(watched.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let mut ids = Vec::new();
        for (id, local) in &self.locals {
            let interest = local.interest(*id, &self.endpoint);
            if !interest.is_empty() {
                polled.push(PollFd::from_borrowed_fd(local.as_fd(), interest));
                ids.push(*id);
            }
        }
        let can_go_on = |(id, local): (&StreamId, &Local)| local.can_go_on(*id, &self.endpoint);
        let has_work = self.endpoint.has_events() || self.locals.iter().any(can_go_on);
        let timeout = if has_work { Some(Duration::ZERO) } else { timeout };
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            // A signal is for the owner to look at: nothing is ready.
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let (others, locals) = polled[1..].split_at(watched.len());
        Ok(Ready {
            channel: polled[0]
                .revents()
                .intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR),
            watched: others.iter().map(is_ready).collect(),
            locals: ids
                .into_iter()
                .zip(locals)
                .filter(|(_, fd)| is_ready(fd))
                .map(|(id, fd)| (id, fd.revents()))
                .collect(),
        })
    }

    fn move_bytes(&mut self, ready: &Ready) -> Result<(), MuxError> {
        if ready.channel {
            self.read_channel()?;
        }
        for (id, flags) in &ready.locals {
            if let Some(local) = self.locals.get_mut(id)
                && flags.intersects(PollFlags::OUT | PollFlags::HUP | PollFlags::ERR)
            {
                local.set_writable();
                local.write(*id, &mut self.endpoint, &mut self.message)?;
            }
        }
        self.read_locals(ready);
        self.write_channel()?;
        self.locals.retain(|_, local| !local.is_over());
        while let Some(event) = self.endpoint.next_event() {
            self.hear(event)?;
        }
        Ok(())
    }

    fn read_channel(&mut self) -> Result<(), MuxError> {
        let channel = self.channel.as_ref().map_err(|error| *error)?;
        match channel.read(&mut self.buffer) {
            Ok(0) => return Err(MuxError::Closed),
            Ok(count) => self.endpoint.receive(&self.buffer[..count])?,
            // A peer that went without reading everything. What it sent before comes next (unix(7)).
            Err(Errno::AGAIN | Errno::CONNRESET) => {}
            Err(errno) => return Err(errno.into()),
        }
        while let Some(event) = self.endpoint.next_event() {
            self.hear(event)?;
        }
        Ok(())
    }

    fn hear(&mut self, event: Event) -> Result<(), MuxError> {
        match event {
            Event::Ready => self.notices.push(Notice::Ready),
            Event::Opened { id, label } => self.notices.push(Notice::Opened { id, label }),
            Event::Received(id) => {
                if self.endpoint.ended(id) == Some(false) {
                    // The reader must not take it for complete, which no local descriptor can say: both
                    // directions end.
                    self.refuse(id);
                } else if let Some(local) = self.locals.get_mut(&id) {
                    local.write(id, &mut self.endpoint, &mut self.message)?;
                }
            }
            Event::Stopped(id) => {
                if let Some(local) = self.locals.get_mut(&id) {
                    local.stop_reading();
                }
            }
            Event::Closed(id) => {
                self.locals.remove(&id);
                self.notices.push(Notice::Closed(id));
            }
        }
        Ok(())
    }

    /// Reads a frame from each local descriptor that is ready, beginning with another one each time.
    fn read_locals(&mut self, ready: &Ready) {
        let ids: Vec<StreamId> = self.locals.keys().copied().collect();
        let is_output = |id: &StreamId| self.locals.get(id).is_some_and(Local::is_output);
        let has_output = ready.locals.keys().any(is_output);
        let at = ids.partition_point(|id| *id < self.first);
        for id in ids[at..].iter().chain(&ids[..at]) {
            let Some(local) = self.locals.get_mut(id) else { continue };
            local.send_message(*id, &mut self.endpoint);
            let interest = local.interest(*id, &self.endpoint);
            let is_ready = ready.locals.contains_key(id) && interest.contains(PollFlags::IN);
            if is_ready && !local.lets_go_first(has_output) {
                local.read(*id, &mut self.endpoint, &mut self.buffer[..MAX_PAYLOAD]);
                self.first = StreamId(id.0.wrapping_add(1));
            }
        }
    }

    fn write_channel(&mut self) -> Result<(), MuxError> {
        let channel = self.channel.as_ref().map_err(|error| *error)?;
        while !self.endpoint.output().is_empty() {
            match channel.write(self.endpoint.output()) {
                Ok(count) => self.endpoint.written(count),
                Err(Errno::AGAIN) => return Ok(()),
                // Nobody reads it. What the peer sent before it went is read first, and then its end.
                Err(Errno::PIPE | Errno::CONNRESET) => {
                    self.endpoint.written(self.endpoint.output().len());
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// What can be done without waiting.
struct Ready {
    channel: bool,
    watched: Vec<bool>,
    locals: BTreeMap<StreamId, PollFlags>,
}
