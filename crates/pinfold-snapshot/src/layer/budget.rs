//! How much archives may unpack to.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::LayerError;
use crate::disk::Disk;

/// The most entries of a system's archives: the same has some 500 000.
pub const MOST_ENTRIES: u64 = 1_000_000;

/// What may still be unpacked into one tree.
#[derive(Debug, Clone)]
pub struct Budget {
    most: u64,
    bytes: u64,
    entries: u64,
    /// Bytes that may be written before the disk is looked at again.
    unwatched: u64,
}

/// How many bytes are written between two looks at the disk.
const BETWEEN_LOOKS: u64 = 64 << 20;

impl Budget {
    /// Makes a budget of so many bytes in so many entries.
    #[must_use]
    pub fn new(bytes: u64, entries: u64) -> Self {
        Self { most: bytes, bytes, entries, unwatched: 0 }
    }

    pub(super) fn take_entry(&mut self) -> Result<(), LayerError> {
        self.entries = self.entries.checked_sub(1).ok_or(LayerError::TooMany)?;
        Ok(())
    }

    fn take(&mut self, count: u64) -> Result<(), LayerError> {
        let rest = self.bytes.checked_sub(count);
        self.bytes = rest.ok_or(LayerError::TooMuch { most: self.most })?;
        Ok(())
    }

    /// Looks now and then whether the disk has room for so many bytes more.
    fn look(&mut self, count: u64, file: &File) -> io::Result<bool> {
        if let Some(rest) = self.unwatched.checked_sub(count) {
            self.unwatched = rest;
            return Ok(true);
        }
        self.unwatched = BETWEEN_LOOKS;
        Ok(!Disk::of_file(file)?.is_short_for(count))
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
            self.take(count as u64)?;
            if !self.look(count as u64, file).map_err(failed)? {
                return Err(LayerError::NoRoom);
            }
            let block = &buffer[..count];
            if block.iter().all(|byte| *byte == 0) {
                file.seek(SeekFrom::Current(count as i64)).map(drop)
            } else {
                file.write_all(block)
            }
            .map_err(failed)?;
            length += count as u64;
        }
        file.set_len(length).map_err(failed)?;
        Ok(length)
    }
}
