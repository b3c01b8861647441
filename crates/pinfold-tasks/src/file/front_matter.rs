//! Where the front matter ends and the brief begins.

use std::path::Path;

use pinfold_policy::document::{Document, Fault, FileError, Item, SettingsFile};
use pinfold_policy::origin::Place;
use pinfold_policy::path::{Escaped, is_plain};

use super::keys::TASK;
use super::{read, yaml};
use crate::spec::TaskSpec;
use crate::text::beginning;

/// The longest front matter, in bytes.
pub(super) const LONGEST: usize = 64 << 10;

/// A file's text in its parts.
pub(super) struct Parts<'a> {
    /// The front matter, and its format.
    pub(super) front: Option<(Format, &'a str)>,
    /// All after it.
    pub(super) brief: &'a str,
    /// The line that the brief begins on.
    line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Toml,
    Yaml,
}

impl Format {
    /// Returns the line that begins and ends front matter of this format.
    fn mark(self) -> &'static str {
        match self {
            Self::Toml => "+++",
            Self::Yaml => "---",
        }
    }
}

/// A file of front matter and Markdown that was taken apart.
pub(super) struct Taken<'a> {
    pub(super) document: Document,
    /// All after the front matter.
    pub(super) brief: &'a str,
    /// The line that it begins on.
    pub(super) line: u32,
}

/// Reads a task: the front matter, the title and the brief. Without a title in the front matter, the first line of
/// the brief is the title.
///
/// # Errors
/// Returns an error with file, line and key for what is not text, too long, unknown or invalid.
pub fn read_task(file: SettingsFile<'_>) -> Result<TaskSpec, FileError> {
    let taken = take_apart(file)?;
    let mut task = TaskSpec::new("", taken.brief.trim());
    read::task(&Item::of_document(&taken.document).table(TASK)?, &mut task)?;
    give_title(&mut task, file.path, taken.line)?;
    Ok(task)
}

/// Takes a file apart, and checks that its parts are text of a bearable length.
///
/// # Errors
/// Returns an error with the line for what is not.
pub(super) fn take_apart(file: SettingsFile<'_>) -> Result<Taken<'_>, FileError> {
    let at = |line, fault| FileError::new(place(file.path, line), String::new(), fault);
    let text = std::str::from_utf8(file.bytes)
        .map_err(|error| at(line_at(&file.bytes[..error.valid_up_to()]), Fault::NotText))?;
    if text.starts_with('\u{feff}') {
        let fault = "begins with a byte order mark; save it as UTF-8 without one";
        return Err(at(1, Fault::Syntax(fault.to_owned())));
    }
    let Parts { front, brief, line } = split(text).map_err(|(line, fault)| at(line, fault))?;
    // The blank line stands for the mark, so that lines are counted as in the file.
    let front = front.map(|(format, front)| (format, format!("\n{front}")));
    let document = match front {
        Some((Format::Yaml, front)) => {
            let root = yaml::parse(&front).map_err(|(line, fault)| at(line, fault))?;
            Document::new(file.path, root)
        }
        toml => {
            let front = toml.map_or_else(String::new, |(_, front)| front);
            Document::parse(SettingsFile { path: file.path, bytes: front.as_bytes() })?
        }
    };
    check_brief(brief.trim(), brief).map_err(|(offset, fault)| at(line + offset, fault))?;
    Ok(Taken { document, brief, line })
}

/// Gives a task without a title the first line of its brief.
///
/// # Errors
/// Returns an error for a task that has neither.
pub(super) fn give_title(task: &mut TaskSpec, path: &Path, line: u32) -> Result<(), FileError> {
    if task.title.is_empty() {
        task.title = title_of(&task.brief);
    }
    if task.title.is_empty() {
        let fault = Fault::Invalid("the task has neither a title nor a brief".to_owned());
        return Err(FileError::new(place(path, line), String::new(), fault));
    }
    Ok(())
}

/// Separates the front matter from the brief.
pub(super) fn split(text: &str) -> Result<Parts<'_>, (u32, Fault)> {
    let whole = Parts { front: None, brief: text, line: 1 };
    let Some((first, rest)) = text.split_once('\n') else { return Ok(whole) };
    let format = match first.trim_end() {
        "+++" => Format::Toml,
        "---" => Format::Yaml,
        _ => return Ok(whole),
    };
    let mut at = 0;
    for (number, line) in (2_u32..).zip(rest.split_inclusive('\n')) {
        if at > LONGEST {
            let fault = format!("the front matter has more than {} KiB", LONGEST >> 10);
            return Err((1, Fault::Invalid(fault)));
        }
        if line.trim_end() == format.mark() {
            let (front, brief) = (&rest[..at], &rest[at + line.len()..]);
            return Ok(Parts { front: Some((format, front)), brief, line: number + 1 });
        }
        at += line.len();
    }
    let fault = format!("the front matter does not end: no line `{}` follows", format.mark());
    Err((1, Fault::Syntax(fault)))
}

/// Checks that a brief is text of a bearable length. Errors have the offset of their line.
fn check_brief(brief: &str, whole: &str) -> Result<(), (u32, Fault)> {
    if brief.len() > TaskSpec::LONGEST_BRIEF {
        let fault = format!("the brief has more than {} KiB", TaskSpec::LONGEST_BRIEF >> 10);
        return Err((0, Fault::Invalid(fault)));
    }
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    match whole.find(is_control) {
        Some(at) => {
            let fault = "the brief has a control character; it is not Markdown";
            Err((line_at(&whole.as_bytes()[..at]) - 1, Fault::Invalid(fault.to_owned())))
        }
        None => Ok(()),
    }
}

/// Returns a title for a brief: its first line, without the marks of a heading and without what is not plain.
fn title_of(brief: &str) -> String {
    let line =
        brief.lines().map(|line| line.trim_start_matches('#').trim()).find(|line| !line.is_empty());
    let plain: String = line.unwrap_or_default().chars().filter(|c| is_plain(*c)).collect();
    beginning(&plain, TaskSpec::LONGEST_TITLE).to_owned()
}

fn place(path: &Path, line: u32) -> Place {
    Place { file: Escaped(path).to_string().into(), line }
}

/// Returns the line, counted from 1, that follows these bytes.
fn line_at(before: &[u8]) -> u32 {
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks).map_or(u32::MAX, |breaks| breaks.saturating_add(1))
}
