//! Replacing text in a file.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;
use rustix::fs::OFlags;

use crate::error::{ErrorKind, ToolError};
use crate::frame::MAX_CONTENT;
use crate::operation::{Edit, EditDone, Replacement};
use crate::read;
use crate::roots::{Roots, There};
use crate::write::replace;

/// Places that are replaced at once.
const PLACES: usize = 1 << 20;

/// Replaces text in a file.
///
/// # Errors
/// Returns what keeps it from being read or written; a text that is not there, or not once; more places
/// than [`PLACES`], or a file that would be too large to be read.
pub(crate) fn edit(roots: &Roots, edit: &Edit) -> Result<EditDone, ToolError> {
    let about = |kind, what: &str| ToolError::about(kind, what, &edit.path);
    // Its state is taken before its content: what changes in between is seen.
    let there = There::new(roots.open(&edit.path, OFlags::RDONLY)?, &edit.path)?;
    let size = u64::try_from(there.about.st_size).unwrap_or_default();
    let content = read::at_most(&there.file, size, MAX_CONTENT + 1)
        .map_err(|error| about(ErrorKind::System, &error.to_string()))?;
    if content.len() > MAX_CONTENT {
        return Err(about(ErrorKind::TooLarge, "too large to be edited"));
    }
    let (mut places, mut texts) = (Vec::new(), Vec::new());
    for (index, replacement) in edit.edits.iter().enumerate() {
        let found = find(&content, replacement, PLACES - places.len());
        let (found, new) = found.map_err(|(kind, what)| {
            let which =
                if edit.edits.len() > 1 { format!("edit {}: ", index + 1) } else { String::new() };
            about(kind, &format!("{which}{what}"))
        })?;
        places.extend(found.into_iter().map(|range| Place { range, text: index }));
        texts.push(new);
    }
    places.sort_by_key(|place| place.range.start);
    if places.windows(2).any(|pair| pair[0].range.end > pair[1].range.start) {
        return Err(about(ErrorKind::Request, "edits overlap"));
    }
    let Some(first) = places.first() else {
        return Err(about(ErrorKind::Request, "no edits"));
    };
    let first_line = 1 + memchr::memchr_iter(b'\n', &content[..first.range.start]).count() as u64;
    let edited = put(&content, &places, &texts).ok_or_else(|| {
        let what = format!("would be larger than one read gives ({} MiB)", MAX_CONTENT >> 20);
        about(ErrorKind::TooLarge, &what)
    })?;
    if edited == content {
        return Err(about(ErrorKind::Request, "the edits change nothing"));
    }
    let spot = roots.spot_of(there, &edit.path)?;
    let atomic = replace(&spot, &edit.path, &edited)?;
    Ok(EditDone { replaced: places.len() as u64, first_line, atomic })
}

/// A place of the file, and which text comes there.
struct Place {
    range: Range<usize>,
    text: usize,
}

/// Returns the content with the texts at their places; none for more than one read gives. How much it is
/// gets added up before room is made for it: a file of a few bytes could else be made to fill the
/// memory.
fn put(content: &[u8], places: &[Place], texts: &[Cow<'_, str>]) -> Option<Vec<u8>> {
    let gone: usize = places.iter().map(|place| place.range.len()).sum();
    let come = places.iter().try_fold(0_usize, |sum, place| {
        sum.checked_add(texts[place.text].len()).filter(|sum| *sum <= MAX_CONTENT)
    });
    let size = (content.len() - gone).checked_add(come?).filter(|size| *size <= MAX_CONTENT)?;
    let mut edited = Vec::with_capacity(size);
    let mut done = 0;
    for Place { range, text } in places {
        edited.extend_from_slice(&content[done..range.start]);
        edited.extend_from_slice(texts[*text].as_bytes());
        done = range.end;
    }
    edited.extend_from_slice(&content[done..]);
    Some(edited)
}

type Found<'a> = (Vec<Range<usize>>, Cow<'a, str>);

/// Returns where a text is, in so many places at most, and what comes in its place; by the line ends of
/// the file if it is not there as it was given.
fn find<'a>(
    content: &[u8],
    replacement: &'a Replacement,
    most: usize,
) -> Result<Found<'a>, (ErrorKind, String)> {
    let Replacement { old, new, all } = replacement;
    if old.is_empty() {
        return Err((ErrorKind::Request, "the text to be replaced is empty".to_owned()));
    }
    let has_lines = |text: &str| memchr::memchr(b'\n', text.as_bytes()).is_some();
    let is_there = memmem::find(content, old.as_bytes()).is_some();
    let (old, new) = match line_end(content) {
        end if !is_there && has_lines(old) => {
            (Cow::Owned(with_ends(old, end)), Cow::Owned(with_ends(new, end)))
        }
        // What is replaced says nothing of how lines end, and what comes has plain ends: the file's.
        CRLF if !has_lines(old) && !new.contains(CRLF) => {
            (Cow::Borrowed(old.as_str()), Cow::Owned(with_ends(new, CRLF)))
        }
        _ => (Cow::Borrowed(old.as_str()), Cow::Borrowed(new.as_str())),
    };
    let found = if *all { occurrences(content, &old, most)? } else { the_one(content, &old)? };
    if found.is_empty() {
        let what =
            "the text to be replaced is not there; it must be given exactly, with white space";
        return Err((ErrorKind::NoMatch, what.to_owned()));
    }
    Ok((found, new))
}

/// Returns where a text is, one place after the other.
fn occurrences(
    content: &[u8],
    text: &str,
    most: usize,
) -> Result<Vec<Range<usize>>, (ErrorKind, String)> {
    let starts = memmem::find_iter(content, text.as_bytes());
    let found: Vec<_> =
        starts.map(|start| start..start + text.len()).take(most.saturating_add(1)).collect();
    if found.len() > most {
        let what = format!("more than {PLACES} places at once");
        return Err((ErrorKind::TooLarge, what));
    }
    Ok(found)
}

/// Returns where a text is that must not be there twice, nor begin again within itself ("aa" in "aaa").
fn the_one(content: &[u8], text: &str) -> Result<Vec<Range<usize>>, (ErrorKind, String)> {
    let Some(start) = memmem::find(content, text.as_bytes()) else { return Ok(Vec::new()) };
    if memmem::find(&content[start + 1..], text.as_bytes()).is_none() {
        let place = start..start + text.len();
        return Ok(Vec::from([place]));
    }
    let times = match memmem::find_iter(content, text.as_bytes()).count() {
        1 => "more than once, over itself".to_owned(),
        count => format!("{count} times"),
    };
    let what = format!("the text to be replaced is there {times}; give more of what is around it");
    Err((ErrorKind::Ambiguous, what))
}

/// How lines end where they end in two characters.
const CRLF: &str = "\r\n";

/// Returns how the first line ends.
fn line_end(content: &[u8]) -> &'static str {
    match memchr::memchr(b'\n', content) {
        Some(at) if at > 0 && content[at - 1] == b'\r' => CRLF,
        _ => "\n",
    }
}

fn with_ends(text: &str, end: &str) -> String {
    let plain = text.replace("\r\n", "\n");
    if end == "\n" { plain } else { plain.replace('\n', end) }
}
