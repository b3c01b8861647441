//! What an archive is packed in.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::error::Bomb;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip (RFC 1952).
    Gzip,
    /// Zstandard (RFC 8878).
    Zstd,
}

impl Compression {
    /// As the name of a file says.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz" | "tgz") => Self::Gzip,
            Some("zst" | "tzst") => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// The content of an archive.
///
/// # Errors
/// What is not compressed that way.
pub fn open(file: File, compression: Compression) -> io::Result<Box<dyn Read>> {
    let packed = file.metadata()?.len();
    let file = BufReader::with_capacity(128 * 1024, file);
    let content: Box<dyn Read> = match compression {
        Compression::None => return Ok(Box::new(file)),
        Compression::Gzip => Box::new(MultiGzDecoder::new(file)),
        Compression::Zstd => Box::new(
            StreamingDecoder::new(file).map_err(|error| io::Error::other(error.to_string()))?,
        ),
    };
    Ok(Box::new(Bounded { content, packed, unpacked: 0 }))
}

/// Ends what unpacks to an unlikely multiple of its size.
struct Bounded {
    content: Box<dyn Read>,
    packed: u64,
    unpacked: u64,
}

/// Systems compress to a third; a layer of sparse images to a fiftieth.
const TIMES: u64 = 200;
/// Below this nobody minds.
const HARMLESS: u64 = 64 << 20;

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.unpacked += count as u64;
        if self.unpacked > HARMLESS && self.unpacked / TIMES > self.packed {
            return Err(io::Error::other(Bomb(TIMES)));
        }
        Ok(count)
    }
}
