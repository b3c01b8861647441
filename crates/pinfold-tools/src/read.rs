//! Reading files.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use rustix::fs::OFlags;

use crate::error::{ErrorKind, ToolError};
use crate::frame::MAX_CONTENT;
use crate::operation::{ContentKind, Range, Read, ReadDone};
use crate::roots::{Roots, There};

/// How much of a file shows what it is.
const LOOK: usize = 8192;
/// The most bytes that are searched for lines: other requests wait in that time.
const LOOKED: usize = 256 << 20;
/// Bytes that are read at once where lines are counted.
const CHUNK: usize = 256 * 1024;

/// Reads a file or a part of it.
///
/// # Errors
/// Returns what keeps it from being read; more than one answer carries.
pub(crate) fn read(roots: &Roots, read: &Read) -> Result<(ReadDone, Vec<u8>), ToolError> {
    let There { mut file, about, .. } =
        There::new(roots.open(&read.path, OFlags::RDONLY)?, &read.path)?;
    let size = u64::try_from(about.st_size).unwrap_or_default();
    let system =
        |error: io::Error| ToolError::about(ErrorKind::System, &error.to_string(), &read.path);
    let too_large = || {
        let what =
            format!("more than one read gives ({} MiB); read a range of bytes", MAX_CONTENT >> 20);
        ToolError::about(ErrorKind::TooLarge, &what, &read.path)
    };
    let mut head = Vec::new();
    let (content, lines) = match read.range {
        None => {
            // A file can grow while it is read, and those of proc(5) have no size.
            let content = at_most(&file, size, MAX_CONTENT + 1).map_err(system)?;
            if content.len() > MAX_CONTENT {
                return Err(too_large());
            }
            (content, None)
        }
        Some(range) => {
            (&file).take(LOOK as u64).read_to_end(&mut head).map_err(system)?;
            match range {
                Range::Bytes { offset, length } => {
                    file.seek(SeekFrom::Start(offset)).map_err(system)?;
                    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_CONTENT);
                    let there = size.saturating_sub(offset);
                    (at_most(&file, there, length).map_err(system)?, None)
                }
                Range::Lines { first, count } => {
                    file.rewind().map_err(system)?;
                    let lines = some_lines(&mut file, first, count).map_err(system)?;
                    lines.ok_or_else(too_large)?
                }
            }
        }
    };
    let looked_at = if read.range.is_some() { &head } else { &content };
    let (kind, mime) = kind_of(&looked_at[..looked_at.len().min(LOOK)]);
    Ok((ReadDone { size, kind, mime: mime.map(str::to_owned), lines }, content))
}

/// Returns the next bytes, room for which is made at once for as many as there should be.
pub(crate) fn at_most(file: &File, there: u64, most: usize) -> io::Result<Vec<u8>> {
    let there = usize::try_from(there).unwrap_or(most).min(most);
    // One more lets the end be seen without another buffer.
    let mut content = Vec::with_capacity(there + 1);
    file.take(most as u64).read_to_end(&mut content)?;
    Ok(content)
}

/// Reads some lines with their ends, and how many there are in all if that many bytes were looked through;
/// none for more than an answer carries, or lines that lie too far behind.
fn some_lines(
    file: &mut File,
    first: u64,
    count: u64,
) -> io::Result<Option<(Vec<u8>, Option<u64>)>> {
    let wanted = first.max(1)..first.max(1).saturating_add(count);
    let (mut kept, mut looked) = (Vec::new(), 0);
    let mut buffer = vec![0; CHUNK];
    // The line that the next byte belongs to.
    let (mut line, mut ended) = (1, true);
    loop {
        let got = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..got];
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest);
            let (piece, after) = rest.split_at(end.map_or(rest.len(), |at| at + 1));
            if wanted.contains(&line) {
                if kept.len() + piece.len() > MAX_CONTENT {
                    return Ok(None);
                }
                kept.extend_from_slice(piece);
            }
            ended = end.is_some();
            line += u64::from(ended);
            rest = after;
        }
        looked += got;
        if looked >= LOOKED {
            return Ok((line >= wanted.end).then_some((kept, None)));
        }
    }
    let lines = if ended { line - 1 } else { line };
    Ok(Some((kept, Some(lines))))
}

/// Returns what content is, by how it begins.
fn kind_of(head: &[u8]) -> (ContentKind, Option<&'static str>) {
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    let image = match head {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    };
    if image.is_some() {
        return (ContentKind::Image, image);
    }
    let is_text = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The last character may be cut in two.
        Err(error) => error.error_len().is_none() && head.len() == LOOK,
    };
    if is_text && !head.contains(&0) {
        (ContentKind::Text, None)
    } else {
        (ContentKind::Binary, None)
    }
}
