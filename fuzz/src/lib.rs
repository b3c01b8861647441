//! What the fuzz targets share.

use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::path::Path;

/// A message that quotes what somebody else wrote must not drive the reader's terminal or forge
/// lines of its own.
///
/// # Panics
/// When it could.
pub fn assert_printable(message: impl Display) {
    let message = message.to_string();
    let is_odd = |character: char| character.is_control() && character != '\n';
    assert!(!message.contains(is_odd), "control characters in {message:?}");
    assert!(message.len() < 64 * 1024, "a message of {} bytes", message.len());
}

/// Lists what a directory holds.
pub fn names(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).collect()
}

/// Gives each header of an archive its checksum: the sum of its bytes, with blanks in its own place (tar(5)).
pub fn put_checksums_right(archive: &mut [u8]) {
    const BLOCK: usize = 512;
    const CHECKSUM: std::ops::Range<usize> = 148..156;
    const SIZE: std::ops::Range<usize> = 124..135;
    let mut at = 0;
    while let Some(header) = archive.get_mut(at..at + BLOCK) {
        header[CHECKSUM].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = std::str::from_utf8(&header[SIZE]).ok();
        let size = size.and_then(|text| usize::from_str_radix(text.trim(), 8).ok()).unwrap_or(0);
        at += BLOCK + size.next_multiple_of(BLOCK).min(archive.len());
    }
}
