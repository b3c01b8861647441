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

/// Replaces text in a file.
///
/// # Errors
/// What keeps it from being read or written; a text that is not there, or not once.
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
    let mut places: Vec<(Range<usize>, Cow<'_, str>)> = Vec::new();
    for (index, replacement) in edit.edits.iter().enumerate() {
        let found = find(&content, replacement);
        let found = found.map_err(|(kind, what)| {
            let which =
                if edit.edits.len() > 1 { format!("edit {}: ", index + 1) } else { String::new() };
            about(kind, &format!("{which}{what}"))
        })?;
        places.extend(found);
    }
    places.sort_by_key(|(range, _)| range.start);
    if places.windows(2).any(|pair| pair[0].0.end > pair[1].0.start) {
        return Err(about(ErrorKind::Request, "edits overlap"));
    }
    let Some((first, _)) = places.first() else {
        return Err(about(ErrorKind::Request, "no edits"));
    };
    let first_line = 1 + memchr::memchr_iter(b'\n', &content[..first.start]).count() as u64;
    let mut edited = Vec::with_capacity(content.len());
    let mut done = 0;
    for (range, new) in &places {
        edited.extend_from_slice(&content[done..range.start]);
        edited.extend_from_slice(new.as_bytes());
        done = range.end;
    }
    edited.extend_from_slice(&content[done..]);
    if edited == content {
        return Err(about(ErrorKind::Request, "the edits change nothing"));
    }
    let spot = roots.spot_of(there, &edit.path)?;
    let atomic = replace(&spot, &edit.path, &edited)?;
    Ok(EditDone { replaced: places.len() as u64, first_line, atomic })
}

type Found<'a> = Vec<(Range<usize>, Cow<'a, str>)>;

/// Where a text is, and what comes in its place; by the line ends of the file if it is not there as it
/// was given.
fn find<'a>(
    content: &[u8],
    replacement: &'a Replacement,
) -> Result<Found<'a>, (ErrorKind, String)> {
    let Replacement { old, new, all } = replacement;
    if old.is_empty() {
        return Err((ErrorKind::Request, "the text to be replaced is empty".to_owned()));
    }
    let mut with = Cow::Borrowed(new.as_str());
    let mut found = occurrences(content, old);
    if found.is_empty() && memchr::memchr(b'\n', old.as_bytes()).is_some() {
        let end = line_end(content);
        found = occurrences(content, &with_ends(old, end));
        with = Cow::Owned(with_ends(new, end));
    }
    match found.len() {
        0 => {
            let what =
                "the text to be replaced is not there; it must be given exactly, with white space";
            Err((ErrorKind::NoMatch, what.to_owned()))
        }
        count if count > 1 && !all => {
            let what = format!(
                "the text to be replaced is there {count} times; give more of what is around it"
            );
            Err((ErrorKind::Ambiguous, what))
        }
        _ => Ok(found.into_iter().map(|range| (range, with.clone())).collect()),
    }
}

fn occurrences(content: &[u8], text: &str) -> Vec<Range<usize>> {
    let starts = memmem::find_iter(content, text.as_bytes());
    starts.map(|start| start..start + text.len()).collect()
}

/// How the first line ends.
fn line_end(content: &[u8]) -> &'static str {
    match memchr::memchr(b'\n', content) {
        Some(at) if at > 0 && content[at - 1] == b'\r' => "\r\n",
        _ => "\n",
    }
}

fn with_ends(text: &str, end: &str) -> String {
    let plain = text.replace("\r\n", "\n");
    if end == "\n" { plain } else { plain.replace('\n', end) }
}
