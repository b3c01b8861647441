//! Frames: kind (1 byte), stream (4), length of the payload (2), payload. Integers are little-endian.

use crate::error::MuxError;

/// The largest payload in bytes: what the guest's driver of virtio-serial writes at once
/// (`port_fops_write`, drivers/char/virtio_console.c).
pub(crate) const MAX_PAYLOAD: usize = 32 * 1024;
/// The longest label in bytes.
pub const MAX_LABEL: usize = 255;
pub(crate) const HEADER: usize = 7;

const OPEN: u8 = 1;
const DATA: u8 = 2;
const FINISH: u8 = 3;
const ABORT: u8 = 4;
const STOP: u8 = 5;
const CREDIT: u8 = 6;
const OPENS: u8 = 7;

/// The number of a stream. Those that the host opens are even, those that the guest opens are odd, and each side
/// counts up. So a number is never used twice, and needs no memory to be recognised as used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) u32);

/// A message of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// Opens a stream.
    Open { id: StreamId, label: &'a [u8] },
    /// Bytes of a stream.
    Data { id: StreamId, bytes: &'a [u8] },
    /// The sender has sent everything.
    Finish { id: StreamId },
    /// The sender sends no more, and not everything was sent.
    Abort { id: StreamId },
    /// The receiver wants no more.
    Stop { id: StreamId },
    /// The sender may send so many bytes more.
    Credit { id: StreamId, bytes: u32 },
    /// The peer may open so many streams more.
    Opens(u32),
}

impl<'a> Frame<'a> {
    /// Takes a frame from the beginning of what was received, with its length. Returns `None` if a part is missing.
    ///
    /// # Errors
    /// Returns an error for a kind or length that does not exist, before the payload is there.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, MuxError> {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return Ok(None) };
        let [kind, a, b, c, d, low, high] = *header;
        let id = StreamId(u32::from_le_bytes([a, b, c, d]));
        let length = u16::from_le_bytes([low, high]);
        let size = usize::from(length);
        let is_valid = match kind {
            OPEN => size <= MAX_LABEL,
            DATA => (1..=MAX_PAYLOAD).contains(&size),
            FINISH | ABORT | STOP => size == 0,
            CREDIT => size == 4,
            OPENS => size == 4 && id.0 == 0,
            unknown => return Err(MuxError::Kind(unknown)),
        };
        if !is_valid {
            return Err(MuxError::Length { kind, length });
        }
        let Some(payload) = rest.get(..size) else { return Ok(None) };
        let number = || payload.try_into().map_or(0, u32::from_le_bytes);
        let frame = match kind {
            OPEN => Self::Open { id, label: payload },
            DATA => Self::Data { id, bytes: payload },
            FINISH => Self::Finish { id },
            ABORT => Self::Abort { id },
            STOP => Self::Stop { id },
            CREDIT => Self::Credit { id, bytes: number() },
            _ => Self::Opens(number()),
        };
        Ok(Some((frame, HEADER + size)))
    }

    /// Appends the frame. Its payload has at most [`MAX_PAYLOAD`] bytes.
    pub(crate) fn encode(&self, output: &mut Vec<u8>) {
        let number;
        let (kind, id, payload) = match *self {
            Self::Open { id, label } => (OPEN, id, label),
            Self::Data { id, bytes } => (DATA, id, bytes),
            Self::Finish { id } => (FINISH, id, &[][..]),
            Self::Abort { id } => (ABORT, id, &[][..]),
            Self::Stop { id } => (STOP, id, &[][..]),
            Self::Credit { id, bytes } => {
                number = bytes.to_le_bytes();
                (CREDIT, id, &number[..])
            }
            Self::Opens(count) => {
                number = count.to_le_bytes();
                (OPENS, StreamId(0), &number[..])
            }
        };
        output.push(kind);
        output.extend_from_slice(&id.0.to_le_bytes());
        output.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        output.extend_from_slice(payload);
    }
}
