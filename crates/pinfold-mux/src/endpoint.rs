//! The protocol without input or output: received bytes in, bytes to write and events out.

use std::collections::{BTreeMap, VecDeque};

use crate::STREAMS;
use crate::error::{MuxError, OpenError};
use crate::frame::{Frame, HEADER, MAX_LABEL, MAX_PAYLOAD, StreamId};
use crate::stream::{Incoming, Stream};

/// Bytes that make a start of a channel differ from each earlier one.
pub const NONCE: usize = 16;
/// What either side sends first, followed by the host's nonce.
const MAGIC: [u8; 8] = *b"pfmux\0\0\x01";
const GREETING: usize = MAGIC.len() + NONCE;

/// Data goes into the output only up to this length, so that what is urgent waits for little.
const ROOM: usize = 64 * 1024;
/// What waits for the channel at most. Above [`ROOM`] there are at most one frame, what one stream says at once
/// (credit, stop, end), a grant of streams, and the openings that the peer allowed.
pub(crate) const MOST_WAITING: usize =
    ROOM + HEADER + MAX_PAYLOAD + 5 * (HEADER + 4) + STREAMS as usize * (HEADER + MAX_LABEL);

/// Which end of the channel this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Greets first, with these random bytes. What the guest wrote for an earlier host is thereby refused.
    Host([u8; NONCE]),
    /// Waits for the greeting, and returns it.
    Guest,
}

/// What the peer did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It has greeted.
    Ready,
    /// It opened a stream.
    Opened {
        id: StreamId,
        /// What it says the stream is for, at most [`MAX_LABEL`] bytes.
        label: Vec<u8>,
    },
    /// It sent bytes, or finished or aborted what it sends.
    Received(StreamId),
    /// It wants no more bytes.
    Stopped(StreamId),
    /// Both directions have ended, and everything was delivered. The number is of no more use.
    Closed(StreamId),
}

/// One end of a channel.
#[derive(Debug)]
pub struct Endpoint {
    side: Side,
    is_greeted: bool,
    /// The part of a frame that has come.
    input: Vec<u8>,
    output: Vec<u8>,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that have something to say, each once.
    queue: VecDeque<StreamId>,
    events: VecDeque<Event>,
    /// The next number of each side, and how many may still be opened by each.
    own: Opener,
    peer: Opener,
    /// Streams of the peer that are over without the peer having heard of it.
    opens_due: u32,
}

#[derive(Debug)]
struct Opener {
    /// Beyond the numbers of streams when all were used.
    next: u64,
    left: u32,
}

impl Endpoint {
    /// Returns an end of a channel through which nothing has gone.
    #[must_use]
    pub fn new(side: Side) -> Self {
        let (own, peer) = match side {
            Side::Host(_) => (2, 1),
            Side::Guest => (1, 2),
        };
        let opener = |next| Opener { next, left: STREAMS };
        let mut new = Self {
            side,
            is_greeted: false,
            input: Vec::new(),
            output: Vec::new(),
            streams: BTreeMap::new(),
            queue: VecDeque::new(),
            events: VecDeque::new(),
            own: opener(own),
            peer: opener(peer),
            opens_due: 0,
        };
        if let Side::Host(nonce) = side {
            new.greet(nonce);
        }
        new
    }

    fn greet(&mut self, nonce: [u8; NONCE]) {
        self.output.extend_from_slice(&MAGIC);
        self.output.extend_from_slice(&nonce);
    }

    /// Takes in what was read from the channel.
    ///
    /// # Errors
    /// Returns what the peer did wrong. The channel is to be closed then.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), MuxError> {
        let mut input = std::mem::take(&mut self.input);
        let mut rest = bytes;
        if !input.is_empty() {
            // Only what a frame may have is put together.
            let missing = (HEADER + MAX_PAYLOAD).saturating_sub(input.len()).min(rest.len());
            input.extend_from_slice(&rest[..missing]);
            let before = input.len() - missing;
            let (used, is_ended) = self.take_first(&input)?;
            if is_ended {
                self.input = input;
                return Ok(());
            }
            rest = &rest[used - before..];
        }
        loop {
            let (used, is_ended) = self.take_first(rest)?;
            if is_ended {
                self.input = rest.to_vec();
                return Ok(());
            }
            rest = &rest[used..];
        }
    }

    /// Takes in the first frame or the greeting. Returns how long it was, or that a part is missing.
    fn take_first(&mut self, bytes: &[u8]) -> Result<(usize, bool), MuxError> {
        if !self.is_greeted {
            return self.take_greeting(bytes);
        }
        match Frame::decode(bytes)? {
            Some((frame, length)) => {
                self.take_frame(frame)?;
                Ok((length, false))
            }
            None => Ok((0, true)),
        }
    }

    fn take_greeting(&mut self, bytes: &[u8]) -> Result<(usize, bool), MuxError> {
        let (magic, nonce) = bytes.split_at(bytes.len().min(MAGIC.len()));
        if !MAGIC.starts_with(magic) {
            return Err(MuxError::Greeting);
        }
        let Some(nonce) = nonce.first_chunk::<NONCE>() else { return Ok((0, true)) };
        match self.side {
            Side::Guest => self.greet(*nonce),
            Side::Host(own) if own == *nonce => {}
            Side::Host(_) => return Err(MuxError::Greeting),
        }
        self.is_greeted = true;
        self.events.push_back(Event::Ready);
        Ok((GREETING, false))
    }

    fn take_frame(&mut self, frame: Frame<'_>) -> Result<(), MuxError> {
        match frame {
            Frame::Open { id, label } => self.take_open(id, label),
            Frame::Data { id, bytes } => {
                self.expect(id)?.receive(id, bytes)?;
                self.notice_bytes(id);
                Ok(())
            }
            Frame::Finish { id } => self.take_end(id, Incoming::Finished),
            Frame::Abort { id } => self.take_end(id, Incoming::Aborted),
            Frame::Stop { id } => {
                if let Some(stream) = self.find(id)? {
                    stream.receive_stop(id)?;
                    self.events.push_back(Event::Stopped(id));
                    self.enqueue(id);
                }
                Ok(())
            }
            Frame::Credit { id, bytes } => match self.find(id)? {
                Some(stream) => stream.receive_credit(bytes),
                None => Ok(()),
            },
            Frame::Opens(count) => {
                let left = self.own.left.checked_add(count).filter(|left| *left <= STREAMS);
                self.own.left = left.filter(|_| count > 0).ok_or(MuxError::Credit(count))?;
                Ok(())
            }
        }
    }

    fn take_open(&mut self, id: StreamId, label: &[u8]) -> Result<(), MuxError> {
        if u64::from(id.0) != self.peer.next {
            return Err(MuxError::StreamNumber { given: id.0, next: self.peer.next });
        }
        self.peer.left = self.peer.left.checked_sub(1).ok_or(MuxError::TooManyStreams)?;
        self.peer.next += 2;
        self.streams.insert(id, Stream::new());
        self.events.push_back(Event::Opened { id, label: label.to_vec() });
        Ok(())
    }

    fn take_end(&mut self, id: StreamId, end: Incoming) -> Result<(), MuxError> {
        self.expect(id)?.receive_end(id, end)?;
        self.notice_bytes(id);
        self.close_if_over(id);
        self.fill();
        Ok(())
    }

    /// Returns a stream whose sender has not said that it ended.
    fn expect(&mut self, id: StreamId) -> Result<&mut Stream, MuxError> {
        self.streams.get_mut(&id).ok_or(MuxError::UnknownStream(id.0))
    }

    /// Returns a stream, or nothing for one that is over here, of which the peer may not have known.
    fn find(&mut self, id: StreamId) -> Result<Option<&mut Stream>, MuxError> {
        let next = if self.is_own(id) { self.own.next } else { self.peer.next };
        if id.0 == 0 || u64::from(id.0) >= next {
            return Err(MuxError::UnknownStream(id.0));
        }
        Ok(self.streams.get_mut(&id))
    }

    fn is_own(&self, id: StreamId) -> bool {
        u64::from(id.0) % 2 == self.own.next % 2
    }

    /// Reports bytes once for all frames that follow each other: a flood of small frames is one event.
    fn notice_bytes(&mut self, id: StreamId) {
        if self.events.back() != Some(&Event::Received(id)) {
            self.events.push_back(Event::Received(id));
        }
    }

    fn enqueue(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.has_something_to_say()
            && !std::mem::replace(&mut stream.is_queued, true)
        {
            self.queue.push_back(id);
        }
        self.fill();
    }

    /// Lets streams speak while there is room, so that what waits is bounded even if nobody reads it.
    fn fill(&mut self) {
        while self.output.len() < ROOM
            && let Some(id) = self.queue.pop_front()
        {
            if let Some(stream) = self.streams.get_mut(&id) {
                stream.is_queued = false;
                stream.speak(id, &mut self.output);
                self.close_if_over(id);
            }
        }
        if self.opens_due > 0 && self.output.len() < ROOM {
            let count = std::mem::take(&mut self.opens_due);
            self.peer.left += count;
            Frame::Opens(count).encode(&mut self.output);
        }
    }

    fn close_if_over(&mut self, id: StreamId) {
        if self.streams.get(&id).is_some_and(Stream::is_over) {
            self.streams.remove(&id);
            if !self.is_own(id) {
                self.opens_due += 1;
            }
            self.events.push_back(Event::Closed(id));
        }
    }

    /// Returns what the peer did, in its order.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns whether [`Self::next_event`] would return something.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Opens a stream. The label says what it is for.
    ///
    /// # Errors
    /// Returns why it cannot be opened.
    pub fn open(&mut self, label: &[u8]) -> Result<StreamId, OpenError> {
        if label.len() > MAX_LABEL {
            return Err(OpenError::Label);
        }
        if !self.is_greeted {
            return Err(OpenError::NotReady);
        }
        let own = self.streams.keys().filter(|id| self.is_own(**id));
        if own.count() >= STREAMS as usize {
            return Err(OpenError::TooMany);
        }
        let number = u32::try_from(self.own.next).map_err(|_| OpenError::Exhausted)?;
        self.own.left = self.own.left.checked_sub(1).ok_or(OpenError::TooMany)?;
        self.own.next += 2;
        let id = StreamId(number);
        self.streams.insert(id, Stream::new());
        Frame::Open { id, label }.encode(&mut self.output);
        Ok(id)
    }

    /// Returns how many more streams can be opened now.
    #[must_use]
    pub fn opens_left(&self) -> u32 {
        if self.is_greeted { self.own.left } else { 0 }
    }

    /// Returns how many bytes can be sent now.
    #[must_use]
    pub fn room(&self, id: StreamId) -> usize {
        let credit = self.streams.get(&id).map_or(0, |stream| stream.credit() as usize);
        let room = ROOM.saturating_sub(self.output.len());
        credit.min(room).min(MAX_PAYLOAD)
    }

    /// Sends the beginning of some bytes. Returns how many went.
    pub fn send(&mut self, id: StreamId, bytes: &[u8]) -> usize {
        let count = self.room(id).min(bytes.len());
        if count > 0
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.spend(count);
            Frame::Data { id, bytes: &bytes[..count] }.encode(&mut self.output);
        }
        count
    }

    /// Says that everything was sent.
    pub fn finish(&mut self, id: StreamId) {
        self.change(id, Stream::finish);
    }

    /// Says that no more is sent, although not everything was.
    pub fn abort(&mut self, id: StreamId) {
        self.change(id, Stream::abort);
    }

    /// Says that no more is wanted, and drops what is held.
    pub fn stop(&mut self, id: StreamId) {
        self.change(id, Stream::stop);
    }

    /// Says that bytes of [`Self::held`] were delivered, from the beginning.
    pub fn take(&mut self, id: StreamId, count: usize) {
        self.change(id, |stream| stream.take(count));
    }

    fn change(&mut self, id: StreamId, change: impl FnOnce(&mut Stream)) {
        if let Some(stream) = self.streams.get_mut(&id) {
            change(stream);
            self.enqueue(id);
            self.close_if_over(id);
            self.fill();
        }
    }

    /// Returns what the peer sent and nobody has taken yet.
    #[must_use]
    pub fn held(&self, id: StreamId) -> (&[u8], &[u8]) {
        self.streams.get(&id).map_or((&[], &[]), Stream::held)
    }

    /// Returns how the peer's direction of a stream ended, if it did: whether everything was sent.
    #[must_use]
    pub fn ended(&self, id: StreamId) -> Option<bool> {
        match self.streams.get(&id).map(Stream::incoming) {
            Some(Incoming::Open) => None,
            Some(Incoming::Finished) => Some(true),
            Some(Incoming::Aborted) | None => Some(false),
        }
    }

    /// Returns what is to be written to the channel.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.output
    }

    /// Says that the beginning of [`Self::output`] was written.
    pub fn written(&mut self, count: usize) {
        self.output.drain(..count.min(self.output.len()));
        self.fill();
    }

    /// Returns how many bytes are held, for the peer and for local readers.
    #[must_use]
    pub fn held_in_all(&self) -> usize {
        let held = |stream: &Stream| {
            let (first, second) = stream.held();
            first.len() + second.len()
        };
        self.streams.values().map(held).sum::<usize>() + self.output.len()
    }
}
