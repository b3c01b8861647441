//! Finding files by their names, and lines by what is in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Entry, here};
use crate::Bytes;

/// Finds files by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Find {
    /// A glob as in gitignore(5): without a slash it matches names, otherwise paths;
    /// with a slash at its end it matches only directories.
    pub pattern: String,
    /// The directory to search; the working directory if empty.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Whether to include what `.gitignore` and similar files exclude.
    #[serde(default)]
    pub ignored: bool,
    /// The most entries to return; 1 000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindDone {
    /// The entries, sorted by path.
    pub entries: Vec<Entry>,
    /// Whether there are more entries than were returned.
    pub truncated: bool,
}

/// What to return of files that have a match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrepMode {
    /// The matching lines.
    #[default]
    Lines,
    /// The paths of files with a match.
    Files,
    /// The paths of files with a match, and the number of matching lines.
    Count,
}

/// Searches the lines of files with the syntax and rules of ripgrep. Hidden files are searched, `.git`
/// is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grep {
    /// A regular expression of Rust's `regex` crate.
    pub pattern: String,
    /// The directory or file to search; the working directory if empty.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Globs as in gitignore(5): only files that match one are searched; with a leading `!` they
    /// are excluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Whether the pattern is literal text.
    #[serde(default)]
    pub literal: bool,
    /// Whether to ignore case.
    #[serde(default)]
    pub ignore_case: bool,
    /// Whether to match only whole words.
    #[serde(default)]
    pub word: bool,
    /// Whether a match may span several lines.
    #[serde(default)]
    pub multiline: bool,
    /// The number of context lines before each match.
    #[serde(default)]
    pub before: u32,
    /// The number of context lines after each match.
    #[serde(default)]
    pub after: u32,
    /// Whether to search what `.gitignore` and similar files exclude.
    #[serde(default)]
    pub ignored: bool,
    /// What to return.
    #[serde(default)]
    pub mode: GrepMode,
    /// The most matching lines (or files) to return; 1 000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The most bytes of a line to return; 2 000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_length: Option<u32>,
}

/// Whether a line matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// The line matches.
    Match,
    /// The line is context of a match.
    Context,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepLine {
    /// The file's path relative to the start of the search.
    pub path: Bytes,
    /// The line's number, counted from 1; for [`GrepMode::Count`] the number of matches; for [`GrepMode::Files`] 0.
    pub line: u64,
    /// Whether the line matches or is context.
    pub kind: LineKind,
    /// The line without its line break.
    pub text: Bytes,
    /// Whether the line was cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepDone {
    /// The lines, sorted by path and number.
    pub lines: Vec<GrepLine>,
    /// The number of matching lines, or of files with a match, among those returned.
    pub matches: u64,
    /// Whether there are or may be more matches: lines above 32 MiB are not searched.
    pub truncated: bool,
    /// Whether the named file is binary: it was searched only up to its first NUL byte.
    /// In a directory, binary files are skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}
