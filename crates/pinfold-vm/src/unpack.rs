//! The compressions that kernels and modules come in, recognised by their first bytes.

use std::io::{self, Read};

use flate2::read::GzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;
use thiserror::Error;

/// What a decoder of xz may use, in KiB. Kernels are packed with a dictionary of at most 128 MiB
/// (scripts/xz_wrap.sh), and the decoder needs a little more.
const XZ_MEMORY: u32 = 144 << 10;
/// The longest block of an LZ4 legacy frame, unpacked (lz4_Frame_format.md, "Legacy frame").
const LZ4_BLOCK: usize = 8 << 20;

const GZIP: &[u8] = b"\x1f\x8b";
const XZ: &[u8] = b"\xfd7zXZ\0";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
const LZ4_LEGACY: &[u8] = b"\x02\x21\x4c\x18";
const BZIP2: &[u8] = b"BZh";
const LZOP: &[u8] = b"\x89LZO";

/// Why something was not unpacked.
#[derive(Debug, Error)]
pub enum UnpackError {
    /// The compressed bytes are damaged, or need more memory than any kernel does.
    #[error("invalid {format} data: {source}")]
    Invalid {
        /// The name of the compression.
        format: &'static str,
        /// What the decoder says.
        source: io::Error,
    },
    /// What comes out is larger than allowed.
    #[error("more than {0} bytes when unpacked")]
    TooLarge(u64),
    /// Nobody packs kernels in this way any more.
    #[error("packed with {0}, which is not supported")]
    Unsupported(&'static str),
}

/// Returns what some bytes unpack to, at most `limit` bytes, or the bytes if they are not compressed.
///
/// # Errors
/// Returns an error if they are damaged, too large when unpacked, or packed in an unsupported way.
pub fn unpack(bytes: Vec<u8>, limit: u64) -> Result<Vec<u8>, UnpackError> {
    let packed = bytes.as_slice();
    if packed.starts_with(GZIP) {
        take("gzip", GzDecoder::new(packed), limit)
    } else if packed.starts_with(XZ) {
        take("xz", XzReader::new_mem_limit(packed, false, XZ_MEMORY), limit)
    } else if packed.starts_with(ZSTD) {
        let invalid =
            |error| UnpackError::Invalid { format: "zstd", source: io::Error::other(error) };
        take("zstd", StreamingDecoder::new(packed).map_err(invalid)?, limit)
    } else if let Some(blocks) = packed.strip_prefix(LZ4_LEGACY) {
        unpack_lz4(blocks, limit)
    } else if packed.starts_with(BZIP2) {
        Err(UnpackError::Unsupported("bzip2"))
    } else if packed.starts_with(LZOP) {
        Err(UnpackError::Unsupported("LZO"))
    } else if bytes.len() as u64 > limit {
        Err(UnpackError::TooLarge(limit))
    } else {
        Ok(bytes)
    }
}

fn take(format: &'static str, reader: impl Read, limit: u64) -> Result<Vec<u8>, UnpackError> {
    let mut unpacked = Vec::new();
    let read = reader.take(limit.saturating_add(1)).read_to_end(&mut unpacked);
    read.map_err(|source| UnpackError::Invalid { format, source })?;
    if unpacked.len() as u64 > limit {
        return Err(UnpackError::TooLarge(limit));
    }
    Ok(unpacked)
}

/// Blocks with their lengths before them, until the end.
fn unpack_lz4(mut rest: &[u8], limit: u64) -> Result<Vec<u8>, UnpackError> {
    let invalid =
        |error: String| UnpackError::Invalid { format: "LZ4", source: io::Error::other(error) };
    let mut unpacked = Vec::new();
    let mut block = vec![0; LZ4_BLOCK];
    while !rest.is_empty() {
        let cut_short = || invalid("cut short".to_owned());
        let (length, after) = rest.split_first_chunk().ok_or_else(cut_short)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (packed, after) = after.split_at_checked(length).ok_or_else(cut_short)?;
        let count = lz4_flex::block::decompress_into(packed, &mut block)
            .map_err(|error| invalid(error.to_string()))?;
        unpacked.extend_from_slice(&block[..count]);
        if unpacked.len() as u64 > limit {
            return Err(UnpackError::TooLarge(limit));
        }
        rest = after;
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests;
