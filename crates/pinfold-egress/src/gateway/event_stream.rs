//! Messages of Amazon's event streams (`application/vnd.amazon.eventstream`), in which Bedrock streams its answers.
//!
//! A message is: its length and the length of its headers (4 bytes each, big-endian), a CRC-32 of these eight bytes, the
//! headers, the payload, and a CRC-32 of all before it (smithy.io/2.0/aws/amazon-eventstream.html).

use std::ops::Range;

use flate2::Crc;

/// The content type.
pub(super) const CONTENT_TYPE: &str = "application/vnd.amazon.eventstream";

/// Bytes of a message at most. The specification allows 24 MiB; Bedrock's chunks have a few KiB.
pub(super) const LONGEST: usize = 16 * 1024 * 1024;

/// Bytes before the headers: two lengths and a checksum.
const PRELUDE: usize = 12;

/// Bytes after the payload: a checksum.
const EPILOGUE: usize = 4;

/// The type of a header whose value is text.
const TEXT: u8 = 7;

/// Puts messages together from the pieces of a stream.
#[derive(Default)]
pub(super) struct Messages {
    /// The beginning of a message that is not whole yet.
    kept: Vec<u8>,
    is_broken: bool,
}

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    bytes: Vec<u8>,
    payload: Range<usize>,
    /// Whether it is an event, and no error.
    pub(super) is_event: bool,
}

/// What a stream holds is not made of messages. Nothing after it can be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Bytes that were kept of the message before.
    pub(super) kept: usize,
}

/// Bytes that are no message.
struct Malformed;

impl Message {
    /// Returns what it carries.
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[self.payload.clone()]
    }
}

impl Messages {
    /// Returns how many bytes of an unfinished message are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Gives the stream up: what follows is not read. Returns how many bytes were kept.
    pub(super) fn give_up(&mut self) -> usize {
        self.is_broken = true;
        std::mem::take(&mut self.kept).len()
    }

    /// Reads to the end of the next message. Returns how many bytes that took, and the message if it is whole.
    ///
    /// # Errors
    /// Returns [`Broken`] for bytes that are no message, and from then on.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Message>), Broken> {
        let kept = self.kept.len();
        self.read(bytes).map_err(|Malformed| {
            self.give_up();
            Broken { kept }
        })
    }

    fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Message>), Malformed> {
        if self.is_broken {
            return Err(Malformed);
        }
        let to_prelude = self.keep(bytes, PRELUDE);
        let Some((length, headers)) = prelude(&self.kept)? else { return Ok((to_prelude, None)) };
        let taken = to_prelude + self.keep(&bytes[to_prelude..], length);
        if self.kept.len() < length {
            return Ok((taken, None));
        }
        let bytes = std::mem::take(&mut self.kept);
        let end = length - EPILOGUE;
        if checksum(&bytes[..end]) != number(&bytes[end..]) {
            return Err(Malformed);
        }
        let payload = PRELUDE + headers..end;
        let is_event = is_event(&bytes[PRELUDE..payload.start]).ok_or(Malformed)?;
        Ok((taken, Some(Message { bytes, payload, is_event })))
    }

    /// Keeps bytes until there are so many. Returns how many it took.
    fn keep(&mut self, bytes: &[u8], wanted: usize) -> usize {
        let taken = bytes.len().min(wanted.saturating_sub(self.kept.len()));
        self.kept.extend_from_slice(&bytes[..taken]);
        taken
    }
}

/// Returns the lengths of a message and of its headers, once its first bytes are there.
fn prelude(kept: &[u8]) -> Result<Option<(usize, usize)>, Malformed> {
    let Some(prelude) = kept.get(..PRELUDE) else { return Ok(None) };
    if checksum(&prelude[..8]) != number(&prelude[8..]) {
        return Err(Malformed);
    }
    let length = number(prelude).try_into().map_err(|_| Malformed)?;
    let headers: usize = number(&prelude[4..]).try_into().map_err(|_| Malformed)?;
    let least = headers.checked_add(PRELUDE + EPILOGUE).ok_or(Malformed)?;
    if length > LONGEST || length < least { Err(Malformed) } else { Ok(Some((length, headers))) }
}

/// Reads headers: a name with its length in one byte, a type, and a value. Returns whether they are those of
/// an event,
/// or `None` if they are malformed.
fn is_event(mut headers: &[u8]) -> Option<bool> {
    let mut is_event = false;
    while let Some((length, rest)) = headers.split_first() {
        let (name, rest) = rest.split_at_checked((*length).into())?;
        let (kind, rest) = rest.split_first()?;
        let (size, rest) = match kind {
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            9 => (16, rest),
            6 | &TEXT => {
                let (size, rest) = rest.split_first_chunk()?;
                (u16::from_be_bytes(*size).into(), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(size)?;
        is_event |= name == b":message-type" && *kind == TEXT && value == b"event";
        headers = rest;
    }
    Some(is_event)
}

/// Writes a message with headers of text.
///
/// # Panics
/// Never: a name has at most 255 bytes and a value 65 535, as its callers give them.
pub(super) fn message(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, value) in headers {
        let (name, value) = (&name.as_bytes()[..name.len().min(255)], value.as_bytes());
        let value = &value[..value.len().min(u16::MAX.into())];
        written.push(name.len() as u8);
        written.extend_from_slice(name);
        written.push(TEXT);
        written.extend_from_slice(&(value.len() as u16).to_be_bytes());
        written.extend_from_slice(value);
    }
    let length = PRELUDE + written.len() + payload.len() + EPILOGUE;
    let mut bytes = Vec::with_capacity(length);
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    bytes.extend_from_slice(&(written.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
    bytes.extend_from_slice(&written);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&checksum(&bytes).to_be_bytes());
    bytes
}

/// Returns the first four bytes as a number; the callers have looked that they are there.
fn number(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests;
