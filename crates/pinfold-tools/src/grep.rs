//! Finding lines of files.
//!
//! Several threads walk and search, in no order, and what they find is put in the order of names: the
//! same question has the same answer, also where a limit cuts it short. Once there is enough, what
//! would come after it is not looked at.

mod found;
mod lines;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use crate::error::{ErrorKind, ToolError};
use crate::list::start;
use crate::operation::{EntryKind, Grep, GrepDone, GrepLine};
use crate::roots::Roots;
use crate::walk::{Cancel, check_pattern, globs, pattern_error, walk_at_once};
use found::{Found, Item};
use ignore::{DirEntry, WalkState};
use lines::Search;
use rustix::fs::OFlags;

/// Matching lines, or files, that are returned unless another number is asked for.
const MATCHES: u64 = 1_000;
/// Bytes of lines in one answer.
const BYTES: usize = 8 << 20;
/// Bytes of what is built of a pattern, and of what that keeps while it searches, for each thread.
const COMPILED: usize = 32 << 20;
/// Threads that search, at most: as many as ripgrep starts.
const SEARCHERS: usize = 12;

/// Finds lines of files.
///
/// # Errors
/// Returns an error for a pattern that cannot be read, a place that is neither a file nor a directory.
pub(crate) fn grep(roots: &Roots, grep: &Grep, cancel: &Cancel) -> Result<GrepDone, ToolError> {
    check_pattern(&grep.pattern)?;
    let matcher = matcher(grep)?;
    let (root, kind) = start(roots, &grep.path)?;
    let found = Arc::new(Found::new(grep.limit.unwrap_or(MATCHES)));
    let mut binary = false;
    if kind == EntryKind::File {
        // Open for reading as every other tool opens it, so that what keeps it from being read is
        // reported.
        roots.open(&grep.path, OFlags::RDONLY)?;
        let name = root.file_name().map(PathBuf::from).unwrap_or_default();
        let part = Search::new(grep, &matcher, cancel).file(&root, &name);
        let changed =
            || ToolError::about(ErrorKind::Changed, "was changed in the meantime", &grep.path);
        let part = part.ok_or_else(changed)?;
        binary = part.is_binary;
        found.add(root, Item::Part(part));
    } else {
        directory(&root, (grep, &matcher), cancel, &found)?;
    }
    cancel.check()?;
    Ok(GrepDone { binary, ..found.in_order()? })
}

fn directory(
    root: &Path,
    (grep, matcher): (&Grep, &RegexMatcher),
    cancel: &Cancel,
    found: &Arc<Found>,
) -> Result<(), ToolError> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(SEARCHERS);
    let of_rules = Arc::clone(found);
    let unreadable = move |directory: &Path, rules: PathBuf| {
        of_rules.add(directory.to_owned(), Item::Unreadable(rules));
    };
    let globs = globs(root, &grep.globs)?;
    let walk = walk_at_once(root, grep.ignored, globs, threads, unreadable)?;
    walk.run(|| {
        let mut search = Search::new(grep, matcher, cancel);
        Box::new(move |entry| match entry {
            _ if cancel.is_cancelled() => WalkState::Quit,
            Ok(entry) => look_at(root, entry, &mut search, found),
            // What cannot be read is skipped.
            Err(_) => WalkState::Continue,
        })
    });
    Ok(())
}

fn look_at(root: &Path, entry: DirEntry, search: &mut Search<'_>, found: &Found) -> WalkState {
    if found.has_enough_before(entry.path()) {
        return WalkState::Skip;
    }
    if entry.file_type().is_some_and(|kind| kind.is_file()) {
        let path = entry.into_path();
        // One that cannot be read is skipped, as ripgrep does.
        if let Some(part) = search.file(&path, path.strip_prefix(root).unwrap_or(&path)) {
            found.add(path, Item::Part(part));
        }
    }
    WalkState::Continue
}

fn matcher(grep: &Grep) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .multi_line(true)
        .case_insensitive(grep.ignore_case)
        .fixed_strings(grep.literal)
        .size_limit(COMPILED)
        .dfa_size_limit(COMPILED)
        .word(grep.word);
    if !grep.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    let built = builder.build(&grep.pattern);
    built.map_err(|error| pattern_error(&error))
}

/// What a file gave.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) lines: Vec<GrepLine>,
    /// Matching lines, or files.
    pub(crate) matches: u64,
    pub(crate) bytes: usize,
    /// Whether there is more in it.
    pub(crate) truncated: bool,
    /// Whether it has a line that is too long to be searched.
    pub(crate) is_too_long: bool,
    /// Whether it has a NUL byte, where its search ended.
    pub(crate) is_binary: bool,
}
