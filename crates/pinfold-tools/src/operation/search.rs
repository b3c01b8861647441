//! Finding files by their names, and lines by what is in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Entry, here};
use crate::Bytes;

/// Finds files by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Find {
    /// A glob as gitignore(5) has it: without a slash it is held against names, else against paths; with
    /// one at its end it finds directories alone.
    pub pattern: String,
    /// Where to begin; the working directory for none.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Whether what `.gitignore` and its like leave out is found, too.
    #[serde(default)]
    pub ignored: bool,
    /// How many at most; 1 000 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindDone {
    /// By their paths.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// What is reported of files that have a match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrepMode {
    /// Their lines.
    #[default]
    Lines,
    /// Their paths.
    Files,
    /// Their paths, and how many lines match.
    Count,
}

/// Finds lines of files, by the syntax and the rules of ripgrep. Hidden files are searched, `.git`
/// is not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grep {
    /// A regular expression of Rust's `regex` crate.
    pub pattern: String,
    /// Where to begin, or the one file; the working directory for none.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Globs as gitignore(5) has them: files that one matches are searched; with a `!` before it they
    /// are not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub globs: Vec<String>,
    /// Whether the pattern is text to be found as it is.
    #[serde(default)]
    pub literal: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
    /// Whether only whole words match.
    #[serde(default)]
    pub word: bool,
    /// Whether a match may go over several lines.
    #[serde(default)]
    pub multiline: bool,
    /// How many lines are shown before each match.
    #[serde(default)]
    pub before: u32,
    /// How many lines are shown after each match.
    #[serde(default)]
    pub after: u32,
    /// Whether what `.gitignore` and its like leave out is searched, too.
    #[serde(default)]
    pub ignored: bool,
    /// What is reported.
    #[serde(default)]
    pub mode: GrepMode,
    /// How many matching lines, or files, at most; 1 000 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Bytes of a line that are shown; 2 000 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_length: Option<u32>,
}

/// Whether a line matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// The line matches.
    Match,
    /// It is shown next to one that does.
    Context,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepLine {
    /// The file, by its path from where the search began.
    pub path: Bytes,
    /// Which line, counted from 1; how many match, for [`GrepMode::Count`]; 0 for [`GrepMode::Files`].
    pub line: u64,
    /// What it is.
    pub kind: LineKind,
    /// The line without its end.
    pub text: Bytes,
    /// Whether it is longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrepDone {
    /// By path and line.
    pub lines: Vec<GrepLine>,
    /// How many lines match, or files have a match, among those reported.
    pub matches: u64,
    /// Whether there are more, or may be: a line of more than 32 MiB is not searched.
    pub truncated: bool,
    /// Whether the one file that was named is binary: it was searched up to its first NUL byte alone.
    /// In a directory such files are skipped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
}
