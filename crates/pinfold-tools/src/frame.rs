//! Messages with content on a stream: a number, two lengths, JSON, bytes.

use std::io::{self, IoSlice, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes of content that one message carries at most.
pub const MAX_CONTENT: usize = 64 << 20;
/// Bytes of JSON that one message carries at most.
const MAX_HEADER: usize = 32 << 20;
/// Bytes before the JSON.
const PREFIX: usize = 12;

/// A message.
#[derive(Debug)]
pub(crate) struct Frame<H> {
    /// Which request it belongs to.
    pub(crate) id: u32,
    /// None takes the request back.
    pub(crate) header: Option<H>,
    pub(crate) content: Vec<u8>,
}

/// Sends a message.
///
/// # Errors
/// Returns the error of `write(2)`; `InvalidInput` for more than fits.
pub(crate) fn send<H: Serialize>(
    to: &mut impl Write,
    id: u32,
    header: Option<&H>,
    content: &[u8],
) -> io::Result<()> {
    let mut head = vec![0; PREFIX];
    if let Some(header) = header {
        serde_json::to_writer(&mut head, header)?;
    }
    let header = head.len() - PREFIX;
    if header > MAX_HEADER || content.len() > MAX_CONTENT {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let lengths = [id, header as u32, content.len() as u32];
    for (place, value) in head.chunks_exact_mut(4).zip(lengths) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    write_both(to, &head, content)
}

/// Writes two pieces, in one call if the system takes them.
fn write_both(to: &mut impl Write, head: &[u8], content: &[u8]) -> io::Result<()> {
    let mut slices = [IoSlice::new(head), IoSlice::new(content)];
    let mut left = &mut slices[..];
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match to.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Receives a message; none at the end.
///
/// # Errors
/// Returns the error of `read(2)`; `InvalidData` for what is no message, or a larger one than agreed.
pub(crate) fn receive<H: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<Frame<H>>> {
    let mut prefix = [0; PREFIX];
    if from.read(&mut prefix[..1])? == 0 {
        return Ok(None);
    }
    from.read_exact(&mut prefix[1..])?;
    let [id, header, content] = [0, 4, 8].map(|at| {
        let bytes = [prefix[at], prefix[at + 1], prefix[at + 2], prefix[at + 3]];
        u32::from_le_bytes(bytes)
    });
    let header = exactly(from, header as usize, MAX_HEADER)?;
    let content = exactly(from, content as usize, MAX_CONTENT)?;
    let header = if header.is_empty() { None } else { Some(serde_json::from_slice(&header)?) };
    Ok(Some(Frame { id, header, content }))
}

/// Reads so many bytes. Room is made as they come: who announces much has to send it.
fn exactly(from: &mut impl Read, length: usize, most: usize) -> io::Result<Vec<u8>> {
    const AT_ONCE: usize = 1 << 20;
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::with_capacity(length.min(AT_ONCE));
    from.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
