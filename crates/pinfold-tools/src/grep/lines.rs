//! The lines of one file that match.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::{BYTES, MATCHES, Part};
use crate::Bytes;
use crate::operation::{Grep, GrepLine, GrepMode, LineKind};
use crate::roots::{open_in, open_seen};
use crate::walk::Cancel;

/// Bytes of a line that are shown unless another number is asked for.
const LINE: u32 = 2_000;
/// Bytes of one file's lines.
const FILE: usize = 1 << 20;
/// Bytes that a line costs in addition to its text.
const AROUND: usize = 64;
/// Bytes of a file that are held at once: its longest line, or all of it where matches go over lines.
const HELD: usize = 32 << 20;

/// Searches one file after another.
pub(super) struct Search<'a> {
    grep: &'a Grep,
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    cancel: &'a Cancel,
    /// Where the last one lay: most come from the same directory as the one before.
    directory: Option<(PathBuf, Option<OwnedFd>)>,
}

impl<'a> Search<'a> {
    pub(super) fn new(grep: &'a Grep, matcher: &'a RegexMatcher, cancel: &'a Cancel) -> Self {
        let shows_lines = grep.mode == GrepMode::Lines;
        let around = |lines: u32| if shows_lines { lines as usize } else { 0 };
        let searcher = SearcherBuilder::new()
            .line_number(shows_lines)
            .before_context(around(grep.before))
            .after_context(around(grep.after))
            .multi_line(grep.multiline)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(HELD))
            .build();
        Self { grep, matcher, searcher, cancel, directory: None }
    }

    /// Returns what a file gives; none for one that cannot be read.
    pub(super) fn file(&mut self, path: &Path, name: &Path) -> Option<Part> {
        let mut lines = Lines { grep: self.grep, cancel: self.cancel, name, part: Part::default() };
        let (file, size) = self.open(path)?;
        let left = (size > 0).then_some(size);
        let file = Interruptible { file, left, cancel: self.cancel };
        let searched = self.searcher.search_reader(self.matcher, file, &mut lines);
        // The system gives its errors a number, and the searcher not its own.
        lines.part.is_too_long = searched.is_err_and(|error| error.raw_os_error().is_none())
            && !self.cancel.is_cancelled();
        Some(lines.finish())
    }

    /// Returns a file by its directory, which is checked against where it was seen, so that this need not
    /// be asked of each file: a name without slashes leads out of no directory, and no link is followed.
    fn open(&mut self, path: &Path) -> Option<(File, u64)> {
        let (above, name) = path.parent().zip(path.file_name())?;
        if self.directory.as_ref().is_none_or(|(last, _)| last != above) {
            self.directory = Some((above.to_owned(), open_seen(above)));
        }
        let (_, directory) = self.directory.as_ref()?;
        open_in(directory.as_ref()?, name)
    }
}

/// A file that is not read on once the search is taken back, or as much was read as there was.
struct Interruptible<'a> {
    file: File,
    /// None where the system shows no size (proc(5)).
    left: Option<u64>,
    cancel: &'a Cancel,
}

impl Read for Interruptible<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_cancelled() || self.left == Some(0) {
            return Ok(0);
        }
        let got = self.file.read(buffer)?;
        self.left = self.left.map(|left| left.saturating_sub(got as u64));
        Ok(got)
    }
}

struct Lines<'a> {
    grep: &'a Grep,
    cancel: &'a Cancel,
    name: &'a Path,
    part: Part,
}

impl Lines<'_> {
    fn push(&mut self, line: u64, kind: LineKind, text: &[u8]) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let length = self.grep.line_length.unwrap_or(LINE) as usize;
        let (shown, cut) = if text.len() > length {
            (&text[..character_before(text, length)], true)
        } else {
            (text, false)
        };
        self.part.bytes += shown.len() + self.name.as_os_str().len() + AROUND;
        let path: Bytes = self.name.into();
        self.part.lines.push(GrepLine { path, line, kind, text: shown.into(), cut });
    }

    /// Returns whether to go on.
    fn has_room(&mut self) -> bool {
        let limit = self.grep.limit.unwrap_or(MATCHES);
        // One more than is returned shows that there are more.
        let is_full = self.part.matches > limit || self.part.bytes > FILE.min(BYTES);
        self.part.truncated |= is_full;
        !is_full && !self.cancel.is_cancelled()
    }

    fn finish(mut self) -> Part {
        if self.part.matches > 0 && self.grep.mode != GrepMode::Lines {
            let lines = if self.grep.mode == GrepMode::Count { self.part.matches } else { 0 };
            self.part.matches = 1;
            self.push(lines, LineKind::Match, b"");
        }
        self.part
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.grep.mode == GrepMode::Files {
            self.part.matches = 1;
            return Ok(false);
        }
        let first = found.line_number().unwrap_or_default();
        for (number, line) in (first..).zip(found.lines()) {
            self.part.matches += 1;
            if self.grep.mode == GrepMode::Lines {
                self.push(number, LineKind::Match, line);
                if !self.has_room() {
                    return Ok(false);
                }
            }
        }
        Ok(!self.cancel.is_cancelled())
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.part.is_binary = true;
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        let line = context.line_number().unwrap_or_default();
        self.push(line, LineKind::Context, context.bytes());
        Ok(self.has_room())
    }
}

/// Returns where the character begins that a cut would go through.
fn character_before(text: &[u8], at: usize) -> usize {
    let is_inside = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    (0..=at).rev().take(4).find(|at| !is_inside(at)).unwrap_or(at)
}

/// Keeps the lines up to so many matches, with what is shown after the last, and returns how many
/// matches these are.
pub(super) fn first(part: &mut Part, matches: u64) -> u64 {
    if part.matches <= matches {
        return part.matches;
    }
    let is_match = |(_, line): &(usize, &GrepLine)| line.kind == LineKind::Match;
    let beyond = part.lines.iter().enumerate().filter(is_match).nth(matches as usize);
    let end = beyond.map_or(part.lines.len(), |(index, _)| index);
    part.lines.truncate(end);
    matches
}
