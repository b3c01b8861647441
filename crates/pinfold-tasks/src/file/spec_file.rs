//! Specifications: files like those of tasks whose body says how far the work is.
//!
//! The front matter is the host's. Only [`set_status`] changes it, and only one line of it.

use std::path::Path;

use pinfold_policy::document::{FileError, Item, SettingsFile};

use super::front_matter::{Format, give_title, split, take_apart};
use super::keys::SPEC;
use super::read;
use crate::spec::TaskSpec;
use crate::spec_status::SpecStatus;

/// What a specification asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecFile {
    /// What its front matter asks for. The brief is the body.
    pub task: TaskSpec,
    /// How far it is, if it says so.
    pub status: Option<SpecStatus>,
    /// What has to be done before, as it is named there.
    pub depends: Vec<String>,
    /// How often the agent may work on it, if it says so.
    pub iterations: Option<u32>,
    /// Where the body begins, in bytes.
    pub body_at: usize,
}

/// Reads a specification.
///
/// # Errors
/// Returns an error with file, line and key for what is not text, too long, unknown or invalid.
pub fn read_spec(file: SettingsFile<'_>) -> Result<SpecFile, FileError> {
    let taken = take_apart(file)?;
    let mut task = TaskSpec::new("", taken.brief.trim());
    let section = Item::of_document(&taken.document).table(SPEC)?;
    read::values(&section, &mut task)?;
    give_title(&mut task, file.path, taken.line)?;
    Ok(SpecFile {
        status: section.read("status", Item::parsed)?,
        depends: section.read("depends", read::names)?.unwrap_or_default(),
        iterations: section.get("iterations").map(|_| task.iterations),
        body_at: file.bytes.len() - taken.brief.len(),
        task,
    })
}

/// Returns the body of a text that a sandbox wrote, whatever is in front of it; none if front matter begins and does
/// not end.
#[must_use]
pub fn body_of(text: &str) -> Option<&str> {
    split(text).ok().map(|parts| parts.brief)
}

/// Returns a specification with another status. All else stays as it is.
///
/// # Errors
/// Returns an error if the front matter is written in a way in which no line can be set.
pub fn set_status(path: &Path, text: &str, status: SpecStatus) -> Result<String, FileError> {
    let read = |text: &str| read_spec(SettingsFile { path, bytes: text.as_bytes() });
    let before = read(text)?;
    let Ok(parts) = split(text) else { return Ok(text.to_owned()) };
    let changed = match parts.front {
        None => format!("---\nstatus: {status}\n---\n{text}"),
        Some((format, front)) => {
            let line = match format {
                Format::Yaml => format!("status: {status}\n"),
                Format::Toml => format!("status = \"{status}\"\n"),
            };
            let is_status = |line: &&str| {
                let rest = line.strip_prefix("status").map(str::trim_start);
                rest.is_some_and(|rest| rest.starts_with([':', '=']))
            };
            // The first line is the mark.
            let (mark, rest) = text.split_once('\n').unwrap_or((text, ""));
            let body = &rest[front.len()..];
            let front = match front.split_inclusive('\n').find(is_status) {
                Some(old) => front.replacen(old, &line, 1),
                // In front: what follows may be in a table of TOML's.
                None => format!("{line}{front}"),
            };
            format!("{mark}\n{front}{body}")
        }
    };
    let after = read(&changed)?;
    let body_at = after.body_at;
    let expected = SpecFile { status: Some(status), body_at, ..before };
    if after == expected {
        return Ok(changed);
    }
    let hint = "write it as `status: ready` on a line of its own";
    let document = take_apart(SettingsFile { path, bytes: text.as_bytes() })?.document;
    Err(Item::of_document(&document).invalid(format!("the status cannot be set; {hint}")))
}
