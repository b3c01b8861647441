//! The guest's end.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::{END, Kind, ORDERS, REPORTS, messages, receive, send};
use crate::{Local, Multiplexer, MuxError, Notice, OpenError, StreamId};

/// How long it waits for a process that has taken no message.
const PAUSE: Duration = Duration::from_millis(5);

/// Carries the messages of a host to a socket and back.
#[derive(Debug)]
pub struct GuestFerry {
    multiplexer: Multiplexer,
    peer: OwnedFd,
    /// Where the stream of orders is read from.
    orders: Option<OwnedFd>,
    /// The descriptors whose message has not come, or nothing where one could not be made.
    arrived: BTreeMap<u32, Option<OwnedFd>>,
    /// The descriptors of the next message.
    announced: Option<Vec<u32>>,
    /// A message that the peer has not taken.
    message: Option<(Vec<u32>, Vec<u8>)>,
    /// Streams that are for the caller.
    others: Vec<(StreamId, Vec<u8>)>,
}

impl GuestFerry {
    /// Carries for the other end of a `SOCK_SEQPACKET` socket.
    #[must_use]
    pub fn new(multiplexer: Multiplexer, peer: OwnedFd) -> Self {
        let (orders, announced, message) = (None, None, None);
        let (arrived, others) = (BTreeMap::new(), Vec::new());
        Self { multiplexer, peer, orders, arrived, announced, message, others }
    }

    /// Waits until something can be carried, one of `watched` can be read, or the time is over, and carries it. Returns
    /// which of `watched` can be read.
    ///
    /// # Errors
    /// Returns why the channel is closed.
    pub fn turn(
        &mut self,
        watched: &[BorrowedFd<'_>],
        timeout: Option<Duration>,
    ) -> Result<Vec<bool>, MuxError> {
        self.pass_on();
        let takes = self.message.is_none();
        let orders = self.orders.as_ref().filter(|_| takes).map(|orders| orders.as_fd());
        let all: Vec<BorrowedFd<'_>> = watched.iter().copied().chain(orders).collect();
        let timeout = if takes { timeout } else { Some(timeout.unwrap_or(PAUSE).min(PAUSE)) };
        let (mut ready, notices) = self.multiplexer.turn(&all, timeout)?;
        for notice in notices {
            if let Notice::Opened { id, label } = notice {
                self.attach(id, label)?;
            }
        }
        if ready.len() > watched.len() && ready.pop() == Some(true) {
            self.take()?;
        }
        self.pass_on();
        Ok(ready)
    }

    /// Returns a stream of this label that the host has opened.
    pub fn take_stream(&mut self, label: &[u8]) -> Option<StreamId> {
        let at = self.others.iter().position(|(_, other)| other == label)?;
        Some(self.others.swap_remove(at).0)
    }

    /// Returns all others that the host has opened since the last call, with what it says they are for.
    pub fn take_streams(&mut self) -> Vec<(StreamId, Vec<u8>)> {
        std::mem::take(&mut self.others)
    }

    /// Attaches a stream that was taken.
    pub fn attach_stream(&mut self, id: StreamId, local: Local) {
        self.multiplexer.attach(id, local);
    }

    /// Returns how many streams can be opened now, without the one that the end takes.
    #[must_use]
    pub fn opens_left(&self) -> u32 {
        self.multiplexer.opens_left().saturating_sub(1)
    }

    /// Opens a stream. The label says what it is for, and the host may refuse it.
    ///
    /// # Errors
    /// Returns why it cannot be opened.
    pub fn open_stream(&mut self, label: &[u8], local: Local) -> Result<StreamId, OpenError> {
        self.multiplexer.open(label, local)
    }

    /// Ends both directions of a stream, whatever is under way.
    pub fn refuse_stream(&mut self, id: StreamId) {
        self.multiplexer.refuse(id);
    }

    /// Carries what the processes that have ended left behind, says that this is all, and waits for the host to end the
    /// channel.
    ///
    /// # Errors
    /// Returns why the channel is closed, in the end.
    pub fn finish(mut self) -> Result<Infallible, MuxError> {
        self.orders = None;
        self.arrived.clear();
        while self.multiplexer.is_reading() {
            self.multiplexer.turn(&[], None)?;
        }
        let (near, far) = messages()?;
        drop(near);
        let end = self.multiplexer.open(END, Local::messages(far)?);
        end.map_err(|_| MuxError::Io(Errno::AGAIN))?;
        loop {
            self.multiplexer.turn(&[], None)?;
        }
    }

    fn attach(&mut self, id: StreamId, label: Vec<u8>) -> Result<(), MuxError> {
        if label == ORDERS {
            let (near, far) = messages()?;
            self.multiplexer.attach(id, Local::messages(far)?);
            self.orders = Some(near);
        } else if label == REPORTS {
            let reports = self.peer.try_clone().map_err(|_| Errno::MFILE)?;
            self.multiplexer.attach(id, Local::outgoing_messages(reports)?);
        } else if let Some((kind, tag)) = Kind::parse(&label) {
            let made = ends(kind).ok();
            match made {
                Some((local, end)) => {
                    self.multiplexer.attach(id, local);
                    self.arrived.insert(tag, Some(end));
                }
                None => {
                    self.multiplexer.refuse(id);
                    self.arrived.insert(tag, None);
                }
            }
        } else {
            self.others.push((id, label));
        }
        Ok(())
    }

    /// Takes an announcement or a message of the host.
    fn take(&mut self) -> Result<(), MuxError> {
        let Some(orders) = &self.orders else { return Ok(()) };
        let bytes = match receive(orders) {
            Ok((bytes, _)) => bytes,
            Err(Errno::AGAIN | Errno::CONNRESET) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        if bytes.is_empty() {
            self.orders = None;
            // A supervisor that is gone.
            let _ = rustix::net::shutdown(&self.peer, Shutdown::Write);
        } else if let Some(tags) = self.announced.take() {
            self.message = Some((tags, bytes));
        } else {
            let (tags, _) = bytes[1..].as_chunks::<4>();
            self.announced = Some(tags.iter().map(|tag| u32::from_le_bytes(*tag)).collect());
        }
        Ok(())
    }

    /// Sends a message on when its descriptors have come, which may be after it.
    fn pass_on(&mut self) {
        let Some((tags, bytes)) = &self.message else { return };
        if !tags.iter().all(|tag| self.arrived.contains_key(tag)) {
            return;
        }
        let descriptors = tags.iter().map(|tag| self.arrived.get(tag)?.as_ref());
        let descriptors: Option<Vec<&OwnedFd>> = descriptors.collect();
        let descriptors: Vec<_> =
            descriptors.iter().flatten().map(|descriptor| descriptor.as_fd()).collect();
        if send(&self.peer, bytes, &descriptors) == Err(Errno::AGAIN) {
            return;
        }
        // What a peer that is gone does not take is nobody's.
        for tag in tags {
            self.arrived.remove(tag);
        }
        self.message = None;
    }
}

/// Returns the end of a stream, and the one that a process gets.
fn ends(kind: Kind) -> Result<(Local, OwnedFd), Errno> {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let (local, end) = match kind {
        Kind::Socket => {
            let (ours, theirs) = rustix::net::socketpair(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            (Local::socket(ours), theirs)
        }
        Kind::Messages => {
            let (ours, theirs) = messages()?;
            (Local::messages(ours), theirs)
        }
        Kind::Input => {
            let (read, write) = pipe()?;
            (Local::writing(write), read)
        }
        Kind::Output => {
            let (read, write) = pipe()?;
            (Local::reading(read), write)
        }
    };
    Ok((local?, end))
}
