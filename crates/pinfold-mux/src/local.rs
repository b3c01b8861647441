//! What a stream leads to on this side.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::Shutdown;

use crate::descriptor::Descriptor;
use crate::endpoint::Endpoint;
use crate::error::MuxError;
use crate::frame::{MAX_PAYLOAD, StreamId};
use crate::multiplexer::MAX_MESSAGE;

/// Before each message of a socket that keeps their borders.
const LENGTH: usize = 4;

/// A local descriptor that a stream is attached to.
#[derive(Debug)]
pub struct Local {
    descriptor: Descriptor,
    /// Whether it is still read for the stream, and whether it is still written from it.
    reads: bool,
    writes: bool,
    is_terminal: bool,
    /// A message that has not gone entirely, where messages keep their borders.
    message: Option<Vec<u8>>,
    /// Whether it took less than it was given.
    is_full: bool,
    /// How often it has let outputs go first, if it does so.
    waited: Option<u8>,
}

/// How often messages let outputs go first, so that an output without end stops none. A pipe is empty by then.
const MOST_WAITED: u8 = 8;

impl Local {
    fn new(file: OwnedFd, reads: bool, writes: bool) -> Result<Self, Errno> {
        let descriptor = Descriptor::new(file)?;
        let (is_terminal, message, is_full, waited) = (false, None, false, None);
        Ok(Self { descriptor, reads, writes, is_terminal, message, is_full, waited })
    }

    /// Returns one end of a stream socket, for both directions.
    ///
    /// # Errors
    /// Returns the error of fstat(2).
    pub fn socket(file: OwnedFd) -> Result<Self, Errno> {
        Self::new(file, true, true)
    }

    /// Returns a `SOCK_SEQPACKET` socket whose messages arrive as they were sent. Descriptors in them stay behind,
    /// and a message longer than [`MAX_MESSAGE`] aborts the stream.
    ///
    /// # Errors
    /// Returns the error of fstat(2).
    pub fn messages(file: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { message: Some(Vec::new()), ..Self::new(file, true, true)? })
    }

    /// Returns a socket of the same kind from which messages are only sent, whatever else it is used for. What programs have
    /// written to pipes goes first, so that a report of a program's end comes after its output.
    ///
    /// # Errors
    /// Returns the error of fstat(2).
    pub fn outgoing_messages(file: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { writes: false, waited: Some(0), ..Self::messages(file)? })
    }

    /// Returns a socket of the same kind to which messages are only delivered.
    ///
    /// # Errors
    /// Returns the error of fstat(2).
    pub fn incoming_messages(file: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { reads: false, ..Self::messages(file)? })
    }

    /// Returns the reading end of a pipe of this stream's own, for what is sent. It becomes non-blocking for all
    /// that share it.
    ///
    /// # Errors
    /// Returns the error of fstat(2) or ioctl(2).
    pub fn reading(file: OwnedFd) -> Result<Self, Errno> {
        Self::new(file, true, false)
    }

    /// Returns the writing end of a pipe of this stream's own, for what is received. It becomes non-blocking for
    /// all that share it.
    ///
    /// # Errors
    /// Returns the error of fstat(2) or ioctl(2).
    pub fn writing(file: OwnedFd) -> Result<Self, Errno> {
        Self::new(file, false, true)
    }

    /// Returns the controlling side of a terminal, for both directions. It becomes non-blocking for all that share
    /// it. It ends when nobody has the user's side open.
    ///
    /// # Errors
    /// Returns the error of fstat(2) or ioctl(2).
    pub fn terminal(file: OwnedFd) -> Result<Self, Errno> {
        Ok(Self { is_terminal: true, ..Self::new(file, true, true)? })
    }

    /// Ends the directions that it does not have, and has what came before written.
    pub(crate) fn begin(&mut self, id: StreamId, endpoint: &mut Endpoint) {
        if !self.reads {
            endpoint.finish(id);
        }
        if !self.writes {
            endpoint.stop(id);
        }
        // Something may have come already: it is written at the next turn.
        self.is_full = self.writes;
    }

    /// Returns whether it is an output of a program.
    pub(crate) fn is_output(&self) -> bool {
        self.reads && !self.writes && self.message.is_none()
    }

    /// Returns whether it is to be read later because there is an output now.
    pub(crate) fn lets_go_first(&mut self, has_output: bool) -> bool {
        let Some(waited) = &mut self.waited else { return false };
        let waits = has_output && *waited < MOST_WAITED;
        *waited = if waits { *waited + 1 } else { 0 };
        waits
    }

    pub(crate) fn is_over(&self) -> bool {
        !self.reads && !self.writes
    }

    pub(crate) fn is_read(&self) -> bool {
        self.reads
    }

    /// Returns what to wait for.
    pub(crate) fn interest(&self, id: StreamId, endpoint: &Endpoint) -> PollFlags {
        let may_read = self.reads && !self.has_message() && endpoint.room(id) > 0;
        let reading = if may_read { PollFlags::IN } else { PollFlags::empty() };
        let writing = if self.is_full { PollFlags::OUT } else { PollFlags::empty() };
        reading | writing
    }

    fn has_message(&self) -> bool {
        self.message.as_ref().is_some_and(|message| !message.is_empty())
    }

    /// Returns whether it has something to send, and room for it, without waiting for anything.
    pub(crate) fn can_go_on(&self, id: StreamId, endpoint: &Endpoint) -> bool {
        self.has_message() && endpoint.room(id) > 0
    }

    /// Notes that there is room again.
    pub(crate) fn set_writable(&mut self) {
        self.is_full = false;
    }

    /// Ends reading, since the peer wants no more: the local writer gets an error.
    pub(crate) fn stop_reading(&mut self) {
        if std::mem::replace(&mut self.reads, false) {
            self.message.iter_mut().for_each(Vec::clear);
            self.descriptor.shut(Shutdown::Read);
            // What nobody read would turn the end of what is written to it into an error (unix(7), ECONNRESET).
            self.descriptor.drain();
        }
    }

    /// Sends what is there, a frame at most.
    pub(crate) fn read(&mut self, id: StreamId, endpoint: &mut Endpoint, buffer: &mut [u8]) {
        if !self.reads {
            return;
        }
        let read = match &mut self.message {
            Some(message) => read_message(&self.descriptor, message),
            None => {
                let room = endpoint.room(id).min(MAX_PAYLOAD);
                if room == 0 {
                    return;
                }
                self.descriptor.read(&mut buffer[..room]).inspect(|count| {
                    endpoint.send(id, &buffer[..*count]);
                })
            }
        };
        match read {
            Err(Errno::IO) if self.is_terminal => self.end_reading(id, endpoint),
            Ok(0) => self.end_reading(id, endpoint),
            Ok(_) => self.send_message(id, endpoint),
            // A program that leaves without reading everything is reported once. What it wrote comes next, and then its
            // end (unix(7), ECONNRESET).
            Err(Errno::AGAIN | Errno::CONNRESET) => {}
            // A message that is too long, or a device that fails.
            Err(_) => {
                self.stop_reading();
                endpoint.abort(id);
            }
        }
    }

    fn end_reading(&mut self, id: StreamId, endpoint: &mut Endpoint) {
        self.reads = false;
        endpoint.finish(id);
    }

    /// Sends what there is room for of a message.
    pub(crate) fn send_message(&mut self, id: StreamId, endpoint: &mut Endpoint) {
        if let Some(message) = &mut self.message
            && !message.is_empty()
        {
            let count = endpoint.send(id, message);
            message.drain(..count);
        }
    }

    /// Writes what the stream holds until it takes no more.
    ///
    /// # Errors
    /// Returns a lie of the peer: a message of a length that no message has.
    pub(crate) fn write(
        &mut self,
        id: StreamId,
        endpoint: &mut Endpoint,
        buffer: &mut Vec<u8>,
    ) -> Result<(), MuxError> {
        while self.writes && !self.is_full {
            let (first, second) = endpoint.held(id);
            let bytes = if self.message.is_none() {
                first
            } else {
                if !next_message(first, second, buffer)? {
                    break;
                }
                &buffer[LENGTH..]
            };
            if bytes.is_empty() {
                break;
            }
            match self.descriptor.write(bytes) {
                Ok(_) if self.message.is_some() => endpoint.take(id, buffer.len()),
                Ok(count) => endpoint.take(id, count),
                Err(Errno::AGAIN | Errno::NOBUFS) => self.is_full = true,
                // Nobody reads it any more.
                Err(_) => {
                    self.stop_writing();
                    endpoint.stop(id);
                }
            }
        }
        self.end_writing(id, endpoint);
        Ok(())
    }

    /// Passes on that the peer has sent everything, once it was delivered.
    fn end_writing(&mut self, id: StreamId, endpoint: &mut Endpoint) {
        let is_delivered = endpoint.held(id).0.is_empty();
        match endpoint.ended(id) {
            Some(true) if self.writes && is_delivered => self.stop_writing(),
            // Half a message is not delivered.
            Some(true) if self.writes && self.message.is_some() && !self.is_full => {
                self.stop_writing();
                endpoint.stop(id);
            }
            _ => {}
        }
    }

    fn stop_writing(&mut self) {
        self.writes = false;
        self.is_full = false;
        self.descriptor.shut(Shutdown::Write);
    }
}

impl AsFd for Local {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Reads a message and puts its length before it. Returns how long both are, or nothing at the end.
fn read_message(descriptor: &Descriptor, message: &mut Vec<u8>) -> Result<usize, Errno> {
    let length = descriptor.next_length()?;
    if length == 0 {
        return Ok(0);
    }
    if length > MAX_MESSAGE {
        return Err(Errno::MSGSIZE);
    }
    message.extend_from_slice(&(length as u32).to_le_bytes());
    message.resize(LENGTH + length, 0);
    let read = descriptor.read(&mut message[LENGTH..]);
    if read != Ok(length) {
        message.clear();
        return Err(read.err().unwrap_or(Errno::MSGSIZE));
    }
    Ok(message.len())
}

/// Puts the next message with its length into the buffer. Returns whether all of it is there.
fn next_message(first: &[u8], second: &[u8], buffer: &mut Vec<u8>) -> Result<bool, MuxError> {
    buffer.clear();
    let held = first.len() + second.len();
    let mut bytes = first.iter().chain(second).copied();
    buffer.extend(bytes.by_ref().take(LENGTH));
    let Some(length) = buffer.first_chunk().map(|length| u32::from_le_bytes(*length)) else {
        return Ok(false);
    };
    if length == 0 || length as usize > MAX_MESSAGE {
        return Err(MuxError::Message(length));
    }
    if held < LENGTH + length as usize {
        return Ok(false);
    }
    buffer.extend(bytes.take(length as usize));
    Ok(true)
}
