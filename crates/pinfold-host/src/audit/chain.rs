//! Records that vouch for those before them.
//!
//! Each record ends with `"chain"`: the SHA-256 of the chain before it (32 bytes, zeros before the first) followed by the
//! record's own bytes up to there. So a record that is changed, removed or put in between makes all later ones wrong. Who
//! can write the files can also write a chain of their own: it proves something to those who kept a chain elsewhere.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};

use super::files::Files;
use super::reader::Reader;

const BYTES: usize = 32;
const KEY: &[u8] = b",\"chain\":\"";
const END: &[u8] = b"\"}\n";
/// Bytes by which a record ends, so that the last one is found without reading the others.
pub(super) const LENGTH: usize = KEY.len() + 2 * BYTES + END.len();

/// What a record says of itself and all before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chain([u8; BYTES]);

impl Chain {
    /// Before the first record.
    const NONE: Self = Self([0; BYTES]);

    /// Returns the chain of the record that ends a file of this length; none if there is no record with one.
    ///
    /// # Errors
    /// Returns the error of `pread(2)`.
    pub(super) fn at_end(file: &File, length: u64) -> io::Result<Option<Self>> {
        let mut end = [0; LENGTH];
        let Some(at) = length.checked_sub(LENGTH as u64) else { return Ok(None) };
        file.read_exact_at(&mut end, at)?;
        Ok(Self::split(&end).map(|(_, chain)| chain))
    }

    /// Returns the chain of the last record that was written before the current file was begun.
    ///
    /// # Errors
    /// Returns the errors of reading the directory and the file.
    pub(super) fn of_full(files: &Files) -> io::Result<Self> {
        let Some(file) = files.last_full()? else { return Ok(Self::NONE) };
        let length = file.metadata()?.len();
        Ok(Self::at_end(&file, length)?.unwrap_or(Self::NONE))
    }

    /// Returns the chain of a record after this one, and the record with it, as a line.
    pub(super) fn add(self, mut record: Vec<u8>) -> (Self, Vec<u8>) {
        let next = self.after(&record);
        record.extend_from_slice(KEY);
        record.extend_from_slice(HEXLOWER.encode(&next.0).as_bytes());
        record.extend_from_slice(END);
        (next, record)
    }

    fn after(self, record: &[u8]) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&self.0);
        context.update(record);
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(context.finish().as_ref());
        Self(bytes)
    }

    /// Splits a line into the record and its chain.
    fn split(line: &[u8]) -> Option<(&[u8], Self)> {
        let (record, end) = line.split_at_checked(line.len().checked_sub(LENGTH)?)?;
        let digits = end.strip_prefix(KEY)?.strip_suffix(END)?;
        let mut bytes = [0; BYTES];
        HEXLOWER.decode_mut(digits, &mut bytes).ok()?;
        Some((record, Self(bytes)))
    }
}

impl Default for Chain {
    fn default() -> Self {
        Self::NONE
    }
}

/// What was found by [`verify`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Records in all.
    pub records: u64,
    /// Those before the first one with a chain, which an older pinfold has written.
    pub unchained: u64,
    /// The first record that does not follow from those before it, counted from 1.
    pub broken: Option<u64>,
    /// Whether the oldest records are gone, as they are when they are old and many.
    pub begins_late: bool,
    /// The chain of the last record, in hexadecimal digits.
    pub last: Option<String>,
    /// Whether a chain that was asked for is that of a record.
    pub has_wanted: bool,
}

/// Checks each record of the log against those before it. `wanted` is a chain, in hexadecimal digits, that a record had at
/// an earlier time.
///
/// # Errors
/// Returns the error of reading the log, with the path.
pub fn verify(state: &Path, wanted: Option<&str>) -> io::Result<Verified> {
    let mut found = Verified::default();
    let Some(mut reader) = Reader::open(state)? else { return Ok(found) };
    found.begins_late = Files::of(state).begins_late()?;
    // Of the first record that is left nobody knows what it follows.
    let mut before = (!found.begins_late).then_some(Chain::NONE);
    let mut last = None;
    while let Some(line) = reader.next_line()? {
        found.records += 1;
        let Some((record, chain)) = Chain::split(&line) else {
            // Only an older pinfold writes none, and it has not run since.
            if last.is_none() {
                found.unchained += 1;
                before = Some(Chain::NONE);
            } else {
                found.broken.get_or_insert(found.records);
            }
            continue;
        };
        if before.is_some_and(|before| before.after(record) != chain) {
            found.broken.get_or_insert(found.records);
        }
        let digits = HEXLOWER.encode(&chain.0);
        // What comes after a broken record proves nothing.
        found.has_wanted |= found.broken.is_none() && wanted == Some(digits.as_str());
        (before, last) = (Some(chain), Some(digits));
    }
    found.last = last;
    Ok(found)
}

#[cfg(test)]
mod tests;
