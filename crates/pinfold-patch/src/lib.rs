//! Changes as git shows them (git-diff(1), "Generating patch text with -p").
//!
//! What a session wrote is hostile to a terminal: there, everything that is not plain text is
//! escaped. Elsewhere the bytes are what they are, so that a patch can be applied.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::fmt::Write as _;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use imara_diff::{Algorithm, Diff, InternedInput, sources};
use pinfold_policy::path::is_plain;
use pinfold_workspace::review::{Change, What};

/// Lines around a change.
const CONTEXT: u32 = 3;
/// A file with a NUL byte in its beginning is no text (`buffer_is_binary` in git).
const BEGINNING: usize = 8000;

const BOLD: &str = "1";
const CYAN: &str = "36";
const GREEN: &str = "32";
const RED: &str = "31";
const YELLOW: &str = "33";

/// What both sides of a change hold.
#[derive(Debug)]
pub struct Texts {
    /// The content before it; none if there was no file, or it is too large.
    pub before: Option<Vec<u8>>,
    /// The content after it; none if there is no file, or it is too large.
    pub after: Option<Vec<u8>>,
    /// Whether neither is too large to be compared.
    pub whole: bool,
}

impl Texts {
    fn is_binary(&self) -> bool {
        let has_nul = |bytes: &Vec<u8>| bytes.iter().take(BEGINNING).any(|byte| *byte == 0);
        !self.whole || self.before.iter().chain(&self.after).any(has_nul)
    }
}

/// Writes changes.
pub struct Printer<'o> {
    /// Where it writes to.
    pub out: &'o mut dyn Write,
    /// Whether what a session wrote is escaped, since a terminal shows it.
    pub is_terminal: bool,
    /// Whether lines have colours.
    pub colours: bool,
}

impl Printer<'_> {
    /// Writes what no patch says.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn note(&mut self, note: &str) -> io::Result<()> {
        self.coloured(YELLOW, format!("# {note}").as_bytes())
    }

    /// Writes one file's patch. A file of another kind is removed and made.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn change(&mut self, change: &Change, texts: &Texts) -> io::Result<()> {
        let (before, after) = change.modes();
        if change.what == What::Replaced {
            let gone = Texts { before: texts.before.clone(), after: None, whole: texts.whole };
            let made = Texts { before: None, after: texts.after.clone(), whole: texts.whole };
            if texts.before.is_some() {
                self.patch(change, (before, None), &gone)?;
            }
            if texts.after.is_some() {
                self.patch(change, (None, after), &made)?;
            }
            return Ok(());
        }
        self.patch(change, (before, after), texts)
    }

    fn patch(
        &mut self,
        change: &Change,
        modes: (Option<u32>, Option<u32>),
        texts: &Texts,
    ) -> io::Result<()> {
        let from = change.renamed_from.as_deref().unwrap_or(&change.path);
        let (old, new) = (quoted("a/", from), quoted("b/", &change.path));
        self.coloured(BOLD, format!("diff --git {old} {new}").as_bytes())?;
        let mut header = |line: String| self.coloured(BOLD, line.as_bytes());
        match modes {
            (None, Some(mode)) if change.renamed_from.is_none() => {
                header(format!("new file mode {mode:06o}"))?;
            }
            (Some(mode), None) => header(format!("deleted file mode {mode:06o}"))?,
            (Some(before), Some(after)) if before != after => {
                header(format!("old mode {before:06o}"))?;
                header(format!("new mode {after:06o}"))?;
            }
            _ => {}
        }
        if change.renamed_from.is_some() {
            header("similarity index 100%".to_owned())?;
            header(format!("rename from {}", quoted("", from)))?;
            return header(format!("rename to {}", quoted("", &change.path)));
        }
        if texts.whole && texts.before == texts.after {
            return Ok(());
        }
        let old = if modes.0.is_some() { old } else { "/dev/null".to_owned() };
        let new = if modes.1.is_some() { new } else { "/dev/null".to_owned() };
        if texts.is_binary() {
            return self.coloured(BOLD, format!("Binary files {old} and {new} differ").as_bytes());
        }
        let (before, after) = sides(texts);
        if before == after {
            // An empty file that is new or gone has no lines.
            return Ok(());
        }
        self.coloured(BOLD, format!("--- {old}").as_bytes())?;
        self.coloured(BOLD, format!("+++ {new}").as_bytes())?;
        self.hunks(before, after)
    }

    fn hunks(&mut self, before: &[u8], after: &[u8]) -> io::Result<()> {
        let compared = Compared::new(before, after);
        let last = |range: &Range<u32>, length: u32| (range.end + CONTEXT).min(length);
        let mut hunks = compared.diff.hunks().peekable();
        while let Some(first) = hunks.next() {
            let mut group = vec![first];
            while let (Some(end), Some(next)) = (group.last(), hunks.peek()) {
                if next.before.start - end.before.end > 2 * CONTEXT {
                    break;
                }
                group.extend(hunks.next());
            }
            let (Some(first), Some(end)) = (group.first(), group.last()) else { continue };
            let lead = first.before.start.min(CONTEXT);
            let old = first.before.start - lead..last(&end.before, compared.length(false));
            let new = first.after.start - lead..last(&end.after, compared.length(true));
            let mut header = format!("@@ -{} +{} @@", span(&old), span(&new)).into_bytes();
            if let Some(within) = compared.heading(old.start) {
                header.push(b' ');
                if self.is_terminal {
                    header.extend_from_slice(plain(within).as_bytes())
                } else {
                    header.extend_from_slice(within)
                }
            }
            self.coloured(CYAN, &header)?;
            let mut at = old.start;
            for hunk in &group {
                self.lines(b' ', None, &compared, false, at..hunk.before.start)?;
                self.lines(b'-', Some(RED), &compared, false, hunk.before.clone())?;
                self.lines(b'+', Some(GREEN), &compared, true, hunk.after.clone())?;
                at = hunk.before.end;
            }
            self.lines(b' ', None, &compared, false, at..old.end)?;
        }
        Ok(())
    }

    fn lines(
        &mut self,
        sign: u8,
        colour: Option<&str>,
        compared: &Compared<'_>,
        after: bool,
        range: Range<u32>,
    ) -> io::Result<()> {
        for number in range {
            let line = compared.line(after, number);
            let (text, is_ended) = match line.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (line, false),
            };
            let mut shown = vec![sign];
            if self.is_terminal {
                shown.extend_from_slice(plain(text).as_bytes())
            } else {
                shown.extend_from_slice(text)
            }
            match colour {
                Some(colour) => self.coloured(colour, &shown)?,
                None => {
                    shown.push(b'\n');
                    self.out.write_all(&shown)?;
                }
            }
            if !is_ended {
                self.out.write_all(b"\\ No newline at end of file\n")?;
            }
        }
        Ok(())
    }

    /// Writes how many lines of a file changed, on one line: its name in `width` columns, the sum, and a sign for each up
    /// to 40. Returns how many were added and removed.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn count(&mut self, name: &str, width: usize, texts: &Texts) -> io::Result<(u32, u32)> {
        const SIGNS: u32 = 40;
        if texts.is_binary() {
            writeln!(self.out, " {name:<width$} | binary")?;
            return Ok((0, 0));
        }
        let (before, after) = sides(texts);
        let diff = Compared::new(before, after).diff;
        let (more, less) = (diff.count_additions(), diff.count_removals());
        let whole = more.saturating_add(less).max(SIGNS);
        let signs = |count: u32| {
            let scaled = u64::from(count) * u64::from(SIGNS);
            usize::try_from(scaled.div_ceil(u64::from(whole))).unwrap_or(0)
        };
        let (plus, minus) = ("+".repeat(signs(more)), "-".repeat(signs(less)));
        writeln!(self.out, " {name:<width$} | {:>5} {plus}{minus}", more.saturating_add(less))?;
        Ok((more, less))
    }

    fn coloured(&mut self, colour: &str, line: &[u8]) -> io::Result<()> {
        if self.colours {
            write!(self.out, "\x1b[{colour}m")?;
        }
        self.out.write_all(line)?;
        self.out.write_all(if self.colours { b"\x1b[m\n" } else { b"\n" })
    }
}

fn sides(texts: &Texts) -> (&[u8], &[u8]) {
    (texts.before.as_deref().unwrap_or_default(), texts.after.as_deref().unwrap_or_default())
}

/// Two texts, line by line.
struct Compared<'t> {
    input: InternedInput<&'t [u8]>,
    diff: Diff,
}

impl<'t> Compared<'t> {
    fn new(before: &'t [u8], after: &'t [u8]) -> Self {
        let input = InternedInput::new(sources::byte_lines(before), sources::byte_lines(after));
        let mut diff = Diff::compute(Algorithm::Histogram, &input);
        diff.postprocess_lines(&input);
        Self { input, diff }
    }

    fn side(&self, after: bool) -> &[imara_diff::Token] {
        if after { &self.input.after } else { &self.input.before }
    }

    fn length(&self, after: bool) -> u32 {
        // Tokens are numbered by u32 themselves.
        self.side(after).len() as u32
    }

    /// Returns the line above a place that begins what it lies in: a function, mostly (`def_ff` in git's
    /// xdiff-interface.c).
    fn heading(&self, below: u32) -> Option<&'t [u8]> {
        /// Bytes of it that are shown.
        const LONGEST: usize = 80;
        let begins = |line: &&[u8]| {
            let first = line.first();
            first.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'))
        };
        let line = (0..below).rev().map(|number| self.line(false, number)).find(begins)?;
        Some(line[..line.len().min(LONGEST)].trim_ascii_end())
    }

    fn line(&self, after: bool, number: u32) -> &'t [u8] {
        self.input.interner[self.side(after)[number as usize]]
    }
}

/// Returns a range of lines as a hunk's header has it.
fn span(range: &Range<u32>) -> String {
    let start = if range.is_empty() { range.start } else { range.start + 1 };
    match range.len() {
        1 => start.to_string(),
        length => format!("{start},{length}"),
    }
}

/// Returns a line of text for a terminal.
fn plain(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character == '\t' || is_plain(character) {
                shown.push(character)
            } else {
                shown.extend(character.escape_default())
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

/// Returns a path as git writes it: in quotes, with escapes, where it is not plain text.
pub fn quoted(prefix: &str, path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_text = |text: &str| {
        text.chars().all(|character| is_plain(character) && !matches!(character, '"' | '\\'))
    };
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(|text| is_text(text)) {
        return format!("{prefix}{text}");
    }
    let mut out = format!("\"{prefix}");
    for byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(*byte)]),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            0x20..0x7f => out.push(char::from(*byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(out, "\\{byte:03o}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests;
