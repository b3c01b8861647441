//! The host's end: messages of a trusted process, to a guest that is not.

use std::collections::VecDeque;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::Shutdown;

use super::{END, Kind, MOST, ORDERS, REPORTS, messages, receive, send};
use crate::{Local, Multiplexer, MuxError, Notice, OpenError, StreamId};

/// Carries the messages of a socket to a guest and back.
#[derive(Debug)]
pub struct HostFerry {
    multiplexer: Multiplexer,
    peer: OwnedFd,
    /// Where the stream of orders is written to, until the peer is gone.
    orders: Option<OwnedFd>,
    /// What there was no room for yet: announcements, and the messages that they are of.
    waiting: VecDeque<Vec<u8>>,
    tag: u32,
    reports: Option<StreamId>,
    /// Streams that are opened before those of messages.
    first: Vec<(&'static [u8], Local)>,
    /// Streams that the guest has opened, which are for the caller.
    opened: Vec<(StreamId, Vec<u8>)>,
    is_over: bool,
}

impl HostFerry {
    /// Carries for the other end of a `SOCK_SEQPACKET` socket, once the guest answers.
    #[must_use]
    pub fn new(multiplexer: Multiplexer, peer: OwnedFd) -> Self {
        let (orders, waiting, first) = (None, VecDeque::new(), Vec::new());
        let (tag, reports, opened, is_over) = (0, None, Vec::new(), false);
        Self { multiplexer, peer, orders, waiting, tag, reports, first, opened, is_over }
    }

    /// Opens one more stream, before all messages.
    #[must_use]
    pub fn with_stream(mut self, label: &'static [u8], local: Local) -> Self {
        self.first.push((label, local));
        self
    }

    /// Waits until something can be carried, one of `watched` can be read, or the time is over, and carries it. Returns
    /// which of `watched` can be read. Streams that the guest opens wait for the caller, as many as a guest may have
    /// open.
    ///
    /// # Errors
    /// Returns why the channel is closed.
    pub fn turn(
        &mut self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>, MuxError> {
        self.pass_on();
        let takes = self.orders.is_some() && self.waiting.is_empty();
        let peer = takes.then(|| self.peer.as_fd());
        let all: Vec<BorrowedFd<'_>> = watched.iter().copied().chain(peer).collect();
        let (mut ready, notices) = self.multiplexer.turn(&all, timeout)?;
        for notice in notices {
            match notice {
                Notice::Ready => self.begin()?,
                Notice::Opened { id, label } if label == END => {
                    self.multiplexer.refuse(id);
                    self.is_over = true;
                }
                Notice::Opened { id, label } => self.opened.push((id, label)),
                Notice::Closed(id) if self.reports == Some(id) => {
                    // The guest's end is gone. A peer that is gone needs to hear of none.
                    let _ = rustix::net::shutdown(&self.peer, Shutdown::Write);
                }
                Notice::Closed(_) => {}
            }
        }
        if ready.len() > watched.len() && ready.pop() == Some(true) {
            self.take()?;
        }
        self.pass_on();
        Ok(ready)
    }

    /// Returns the streams that the guest has opened since the last call, with what it says they are for. Each is to be
    /// attached or refused.
    pub fn take_opened(&mut self) -> Vec<(StreamId, Vec<u8>)> {
        std::mem::take(&mut self.opened)
    }

    /// Returns how many streams can be opened now.
    #[must_use]
    pub fn opens_left(&self) -> u32 {
        self.multiplexer.opens_left()
    }

    /// Opens a stream to the guest, which may refuse it. The label says what it is for.
    ///
    /// # Errors
    /// Returns why it cannot be opened.
    pub fn open_stream(&mut self, label: &[u8], local: Local) -> Result<StreamId, OpenError> {
        self.multiplexer.open(label, local)
    }

    /// Attaches a stream that the guest has opened.
    pub fn attach_stream(&mut self, id: StreamId, local: Local) {
        self.multiplexer.attach(id, local);
    }

    /// Refuses a stream that the guest has opened.
    pub fn refuse_stream(&mut self, id: StreamId) {
        self.multiplexer.refuse(id);
    }

    /// Returns whether the guest has answered.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.reports.is_some()
    }

    /// Returns whether the guest has said everything, and all of it was delivered.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over && !self.multiplexer.is_writing()
    }

    fn begin(&mut self) -> Result<(), MuxError> {
        let (near, far) = messages()?;
        let reports = self.peer.try_clone().map_err(|_| Errno::MFILE)?;
        let failed = |_| MuxError::Io(Errno::AGAIN);
        for (label, local) in self.first.drain(..) {
            self.multiplexer.open(label, local).map_err(failed)?;
        }
        let reports = Local::incoming_messages(reports)?;
        self.reports = Some(self.multiplexer.open(REPORTS, reports).map_err(failed)?);
        self.multiplexer.open(ORDERS, Local::messages(far)?).map_err(failed)?;
        self.orders = Some(near);
        Ok(())
    }

    /// Takes a message of the peer.
    fn take(&mut self) -> Result<(), MuxError> {
        let (message, descriptors) = match receive(&self.peer) {
            Ok(received) => received,
            Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        if message.is_empty() {
            self.orders = None;
            return Ok(());
        }
        // Without all of them, it goes without any, as where the kernel has no room for them.
        let tags = self.open_all(descriptors).unwrap_or_default();
        let mut announced = vec![tags.len() as u8];
        announced.extend(tags.iter().flat_map(|tag| tag.to_le_bytes()));
        self.waiting.extend([announced, message]);
        Ok(())
    }

    /// Opens a stream for each descriptor. Returns nothing if one of them cannot be carried.
    fn open_all(&mut self, descriptors: Vec<OwnedFd>) -> Option<Vec<u32>> {
        let mut opened: Vec<StreamId> = Vec::new();
        let mut tags = Vec::with_capacity(MOST);
        for descriptor in descriptors {
            let Some(id) = self.open(descriptor) else {
                opened.into_iter().for_each(|id| self.multiplexer.refuse(id));
                return None;
            };
            opened.push(id);
            tags.push(self.tag);
        }
        Some(tags)
    }

    fn open(&mut self, descriptor: OwnedFd) -> Option<StreamId> {
        let kind = Kind::of(descriptor.as_fd())?;
        let local = match kind {
            Kind::Socket => Local::socket(descriptor),
            Kind::Messages => Local::messages(descriptor),
            Kind::Input => Local::reading(descriptor),
            Kind::Output => Local::writing(descriptor),
        };
        self.tag = self.tag.wrapping_add(1);
        self.multiplexer.open(&kind.label(self.tag), local.ok()?).ok()
    }

    fn pass_on(&mut self) {
        while let (Some(orders), Some(message)) = (&self.orders, self.waiting.front()) {
            match send(orders, message, &[]) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(Errno::AGAIN) => return,
                // The guest wants no more.
                Err(_) => self.orders = None,
            }
        }
    }
}
