//! Messages on a stream: one line of JSON each (RFC 8259 has no newline inside a text).

use std::io::{self, BufRead, Write};

use serde::Serialize;

/// The longest message in bytes: a file's content in base64, and the fields around it.
pub const LONGEST: usize = 96 << 20;

/// Returns the next line without its line break, or none at the end of the stream.
///
/// # Errors
/// Returns the error of the read, and `InvalidData` if the line is longer than [`LONGEST`].
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    read_bounded_line(from, LONGEST)
}

/// Returns the next line of at most `limit` bytes, or none at the end of the stream.
///
/// # Errors
/// Returns the error of the read, and `InvalidData` if the line is longer.
pub fn read_bounded_line(from: &mut impl BufRead, longest: usize) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let got = io::Read::take(&mut *from, longest as u64 + 1).read_until(b'\n', &mut line)?;
    if got == 0 {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > longest {
        let what = format!("a message of more than {} MiB", longest >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(Some(line))
}

/// Writes a message as a line.
///
/// # Errors
/// Returns the error of the write.
pub fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}
