//! How much archives may unpack to.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::LayerError;

/// The most bytes that a system may have: Debian with all of its desktop has some ten GiB.
pub const MOST_BYTES: u64 = 32 << 30;
/// The most entries of a system's archives: the same has some 500 000.
pub const MOST_ENTRIES: u64 = 1_000_000;

/// What may still be unpacked into one tree.
#[derive(Debug, Clone)]
pub struct Budget {
    bytes: u64,
    entries: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MOST_BYTES, entries: MOST_ENTRIES }
    }
}

impl Budget {
    /// A smaller one.
    #[must_use]
    pub fn new(bytes: u64, entries: u64) -> Self {
        Self { bytes, entries }
    }

    pub(super) fn take_entry(&mut self) -> Result<(), LayerError> {
        self.entries = self.entries.checked_sub(1).ok_or(LayerError::TooMuch)?;
        Ok(())
    }

    /// Copies a file's content; blocks of zeros become holes. Returns its length.
    pub(super) fn copy(
        &mut self,
        content: &mut impl Read,
        file: &mut File,
        path: &Path,
    ) -> Result<u64, LayerError> {
        const BLOCK: usize = 64 * 1024;
        let failed = |source| LayerError::File { path: path.to_owned(), source };
        let mut buffer = vec![0; BLOCK];
        let mut length = 0;
        loop {
            let count = content.read(&mut buffer).map_err(LayerError::damaged)?;
            if count == 0 {
                break;
            }
            self.bytes = self.bytes.checked_sub(count as u64).ok_or(LayerError::TooMuch)?;
            let block = &buffer[..count];
            match block.iter().all(|byte| *byte == 0) {
                true => file.seek(SeekFrom::Current(count as i64)).map(drop),
                false => file.write_all(block),
            }
            .map_err(failed)?;
            length += count as u64;
        }
        file.set_len(length).map_err(failed)?;
        Ok(length)
    }
}
