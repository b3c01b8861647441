//! Settings files as trees of values that know their line.
//!
//! JSON and TOML become the same `Node`s, and every reader goes through `Section` and
//! `Item`, so that each mistake is reported with file, line and key, in one form. `serde` is
//! not used for this: it loses the line of a value that is well formed but not allowed.

mod canonical;
mod error;
mod json;
mod keys;
mod read;
mod toml;

use std::path::Path;
use std::sync::Arc;

pub use error::{Fault, FileError, nearest_hint};
pub use keys::{Key, Shape, nearest};
pub use read::{Item, Section};

use crate::origin::Place;
use crate::path::Escaped;

/// A settings file as it was found: its path, for messages, and its content.
#[derive(Clone, Copy, Debug)]
pub struct SettingsFile<'a> {
    /// Where it was found. A name that ends in `.json` is read as JSON, any other as TOML.
    pub path: &'a Path,
    /// What is in it.
    pub bytes: &'a [u8],
}

/// A value and the line it begins on.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line, counted from 1.
    pub line: u32,
    pub value: Value,
}

/// What JSON and TOML have in common, and the two kinds that only one has.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    Text(String),
    /// A date or time, which no key takes.
    Time,
    Array(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Member>),
}

/// A key with its line, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub key: String,
    /// The line of the key, counted from 1.
    pub line: u32,
    pub node: Node,
}

impl Value {
    /// Returns the kind of value, for "found …".
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Integer(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Time => "a date or time",
            Self::Array(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Document {
    pub(crate) file: Arc<str>,
    pub(crate) root: Node,
}

impl Document {
    /// Returns a document that another reader parsed, from a file with this name.
    #[must_use]
    pub fn new(path: &Path, root: Node) -> Self {
        Self { file: Escaped(path).to_string().into(), root }
    }

    /// Parses a file by the format that its name says.
    ///
    /// # Errors
    /// Returns an error for a file that is not text, or not well formed.
    pub fn parse(file: SettingsFile<'_>) -> Result<Self, FileError> {
        let name: Arc<str> = Escaped(file.path).to_string().into();
        let failed =
            |line, fault| FileError::new(Place { file: name.clone(), line }, String::new(), fault);
        let text = std::str::from_utf8(file.bytes).map_err(|error| {
            let before = &file.bytes[..error.valid_up_to()];
            failed(line_count(before), Fault::NotText)
        })?;
        let is_json = file.path.extension().is_some_and(|extension| extension == "json");
        if is_json && text.starts_with('\u{feff}') {
            // RFC 8259, 8.1; TOML has one skipped.
            let fault = "begins with a byte order mark; save it as UTF-8 without one";
            return Err(failed(1, Fault::Syntax(fault.to_owned())));
        }
        let parsed = if is_json { json::parse(text) } else { toml::parse(text) };
        let root = parsed.map_err(|(line, fault)| failed(line, fault))?;
        Ok(Self { file: name, root })
    }
}

/// Returns the line, counted from 1, that follows `before`.
fn line_count(before: &[u8]) -> u32 {
    let breaks = before.iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(breaks).map_or(u32::MAX, |breaks| breaks.saturating_add(1))
}

#[cfg(test)]
mod tests;
