//! What an archive is packed in.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::LayerError;
use super::error::Bomb;

/// How packed archives begin: a name can say anything.
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// What is common and has no reader here.
const UNREAD: [(&[u8], &str); 2] = [(b"\xfd7zXZ\0", "xz"), (b"BZh", "bzip2")];

/// Returns the content of an archive that is plain, or packed by gzip (RFC 1952) or Zstandard (RFC
/// 8878).
///
/// # Errors
/// Returns what is packed otherwise, or damaged.
pub fn open(file: File) -> Result<Box<dyn Read>, LayerError> {
    let packed = file.metadata().map_err(LayerError::damaged)?.len();
    let mut start = [0; 8];
    let length = file.read_at(&mut start, 0).map_err(LayerError::damaged)?;
    unpacked(file, &start[..length], packed)
}

/// Returns the same of what begins with these bytes and has so many.
///
/// # Errors
/// Returns the errors of [`open`].
pub(super) fn unpacked<'r>(
    file: impl Read + 'r,
    start: &[u8],
    packed: u64,
) -> Result<Box<dyn Read + 'r>, LayerError> {
    let begins = |with: &[u8]| start.starts_with(with);
    if let Some((_, how)) = UNREAD.iter().find(|(magic, _)| begins(magic)) {
        return Err(LayerError::Packed { how });
    }
    let file = BufReader::with_capacity(128 * 1024, file);
    let content: Box<dyn Read + 'r> = if begins(GZIP) {
        Box::new(MultiGzDecoder::new(file))
    } else if begins(ZSTD) {
        let decoder = StreamingDecoder::new(file);
        Box::new(decoder.map_err(|error| LayerError::damaged(io::Error::other(error.to_string())))?)
    } else {
        return Ok(Box::new(file));
    };
    Ok(Box::new(Bounded { content, packed, unpacked: 0 }))
}

/// Ends what unpacks to an unlikely multiple of its size.
struct Bounded<'r> {
    content: Box<dyn Read + 'r>,
    packed: u64,
    unpacked: u64,
}

/// Systems compress to a third; a layer of sparse images to a fiftieth.
const TIMES: u64 = 200;
/// Below this nobody minds.
const HARMLESS: u64 = 64 << 20;

impl Read for Bounded<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.unpacked += count as u64;
        if self.unpacked > HARMLESS && self.unpacked / TIMES > self.packed {
            return Err(io::Error::other(Bomb(TIMES)));
        }
        Ok(count)
    }
}
