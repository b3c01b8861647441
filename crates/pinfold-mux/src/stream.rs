//! One stream, as one side of it sees it.

use std::collections::VecDeque;

use crate::WINDOW;
use crate::error::MuxError;
use crate::frame::{Frame, StreamId};

/// How much is taken before the peer is allowed more. A quarter keeps the peer sending, with few frames.
const GRANTED_AT: u32 = WINDOW / 4;

/// What the peer has still to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    Open,
    Finished,
    Aborted,
}

/// What this side has still to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outgoing {
    Open,
    /// The end is not in the output yet.
    Finishing,
    Aborting,
    Ended,
}

/// A stream that is open in a direction, or holds bytes for its reader.
#[derive(Debug)]
pub(crate) struct Stream {
    held: VecDeque<u8>,
    /// Bytes that the peer may still send.
    allowed: u32,
    /// Bytes that were taken and not allowed again yet.
    taken: u32,
    incoming: Incoming,
    /// Whether this side wants no more, and whether the peer is still to hear of it.
    is_stopped: bool,
    stop_is_due: bool,
    /// Bytes that this side may still send.
    credit: u32,
    outgoing: Outgoing,
    /// Whether the peer wants no more.
    is_unwanted: bool,
    /// Whether it is in the queue of those that have something to say.
    pub(crate) is_queued: bool,
}

impl Stream {
    pub(crate) fn new() -> Self {
        Self {
            held: VecDeque::new(),
            allowed: WINDOW,
            taken: 0,
            incoming: Incoming::Open,
            is_stopped: false,
            stop_is_due: false,
            credit: WINDOW,
            outgoing: Outgoing::Open,
            is_unwanted: false,
            is_queued: false,
        }
    }

    /// Takes in bytes of the peer.
    pub(crate) fn receive(&mut self, id: StreamId, bytes: &[u8]) -> Result<(), MuxError> {
        self.expect_open(id)?;
        // A frame is shorter than 4 GiB.
        let left = self.allowed.checked_sub(bytes.len() as u32);
        self.allowed = left.ok_or(MuxError::CreditOverrun(id.0))?;
        if !self.is_stopped {
            self.held.extend(bytes);
        }
        Ok(())
    }

    /// Takes in the end of what the peer sends.
    pub(crate) fn receive_end(&mut self, id: StreamId, end: Incoming) -> Result<(), MuxError> {
        self.expect_open(id)?;
        self.incoming = end;
        self.stop_is_due = false;
        if end == Incoming::Aborted {
            self.held = VecDeque::new();
        }
        Ok(())
    }

    fn expect_open(&self, id: StreamId) -> Result<(), MuxError> {
        if self.incoming == Incoming::Open { Ok(()) } else { Err(MuxError::AfterEnd(id.0)) }
    }

    pub(crate) fn receive_credit(&mut self, bytes: u32) -> Result<(), MuxError> {
        let credit = self.credit.checked_add(bytes).filter(|credit| *credit <= WINDOW);
        self.credit = credit.filter(|_| bytes > 0).ok_or(MuxError::Credit(bytes))?;
        Ok(())
    }

    /// Handles that the peer wants no more.
    pub(crate) fn receive_stop(&mut self, id: StreamId) -> Result<(), MuxError> {
        if std::mem::replace(&mut self.is_unwanted, true) {
            return Err(MuxError::AfterEnd(id.0));
        }
        // To a receiver that wants no more, every end is the same.
        self.end(Outgoing::Finishing);
        Ok(())
    }

    pub(crate) fn incoming(&self) -> Incoming {
        self.incoming
    }

    pub(crate) fn held(&self) -> (&[u8], &[u8]) {
        self.held.as_slices()
    }

    /// Removes bytes that were delivered.
    pub(crate) fn take(&mut self, count: usize) {
        let count = count.min(self.held.len());
        self.held.drain(..count);
        self.taken += count as u32;
        if self.held.is_empty() {
            self.held = VecDeque::new();
        }
    }

    pub(crate) fn finish(&mut self) {
        self.end(Outgoing::Finishing);
    }

    pub(crate) fn abort(&mut self) {
        self.end(Outgoing::Aborting);
    }

    fn end(&mut self, how: Outgoing) {
        if self.outgoing == Outgoing::Open {
            self.outgoing = how;
        }
    }

    /// Wants no more of the peer, and drops what is held.
    pub(crate) fn stop(&mut self) {
        self.held = VecDeque::new();
        self.stop_is_due |= !self.is_stopped && self.incoming == Incoming::Open;
        self.is_stopped = true;
    }

    /// Returns how much may be sent.
    pub(crate) fn credit(&self) -> u32 {
        if self.outgoing == Outgoing::Open { self.credit } else { 0 }
    }

    /// Says that bytes were sent, at most as many as [`Self::credit`] says.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.credit -= bytes as u32;
    }

    fn grants(&self) -> bool {
        self.taken >= GRANTED_AT && self.incoming == Incoming::Open && !self.is_stopped
    }

    pub(crate) fn has_something_to_say(&self) -> bool {
        let is_ending = matches!(self.outgoing, Outgoing::Finishing | Outgoing::Aborting);
        self.stop_is_due || is_ending || self.grants()
    }

    /// Appends what there is to say.
    pub(crate) fn speak(&mut self, id: StreamId, output: &mut Vec<u8>) {
        if self.grants() {
            let bytes = std::mem::take(&mut self.taken);
            self.allowed += bytes;
            Frame::Credit { id, bytes }.encode(output);
        }
        if std::mem::take(&mut self.stop_is_due) {
            Frame::Stop { id }.encode(output);
        }
        match self.outgoing {
            Outgoing::Finishing => Frame::Finish { id }.encode(output),
            Outgoing::Aborting => Frame::Abort { id }.encode(output),
            Outgoing::Open | Outgoing::Ended => return,
        }
        self.outgoing = Outgoing::Ended;
    }

    /// Returns whether both directions have ended and everything was delivered.
    pub(crate) fn is_over(&self) -> bool {
        let is_read = self.incoming != Incoming::Open && self.held.is_empty();
        is_read && self.outgoing == Outgoing::Ended
    }
}
