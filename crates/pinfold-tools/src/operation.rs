//! What can be asked of a session's tools, and what they answer.
//!
//! Paths are the sandbox's; a relative one begins at the session's working directory. Content of
//! files follows these messages, as bytes.

mod search;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use search::{Find, FindDone, Grep, GrepDone, GrepLine, GrepMode, LineKind};

use crate::{Bytes, ToolError};

/// A file operation in the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Read a file.
    Read(Read),
    /// Write a whole file.
    Write(Write),
    /// Replace text in a file.
    Edit(Edit),
    /// List a directory.
    List(List),
    /// Find files by their names.
    Find(Find),
    /// Search the lines of files.
    Grep(Grep),
    /// Return what is at a path.
    Stat(Stat),
    /// Create a directory and its missing parents.
    MakeDirectory(MakeDirectory),
    /// Report changes until the operation is cancelled.
    Watch(Watch),
}

/// Reads a file or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Read {
    /// The file's path in the sandbox.
    pub path: Bytes,
    /// The part to read; the whole file if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Range {
    /// A range of bytes.
    #[serde(rename_all = "camelCase")]
    Bytes {
        /// The first byte, counted from 0.
        offset: u64,
        /// The most bytes to read.
        length: u64,
    },
    /// A range of lines.
    #[serde(rename_all = "camelCase")]
    Lines {
        /// The first line, counted from 1.
        first: u64,
        /// The most lines to read.
        count: u64,
    },
}

/// The kind of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContentKind {
    /// UTF-8 without NUL bytes in the part that was examined.
    Text,
    /// An image of a known format.
    Image,
    /// Anything else.
    Binary,
}

/// The description of a file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadDone {
    /// The file's size in bytes.
    pub size: u64,
    /// The kind of content or entry.
    pub kind: ContentKind,
    /// The media type of an image (RFC 6838).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// The file's number of lines if a range of lines was requested; absent for files above 256 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

/// Writes a file atomically: a reader sees either the old or the new content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Write {
    /// The file's path in the sandbox; a symbolic link is followed.
    pub path: Bytes,
    /// Whether to create missing parent directories.
    #[serde(default)]
    pub parents: bool,
    /// Whether to fail if the file exists.
    #[serde(default)]
    pub new: bool,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteDone {
    /// The file's size in bytes.
    pub size: u64,
    /// Whether the file did not exist before.
    pub created: bool,
    /// Whether no reader could see a partial write. False if the file had to be overwritten in place, because it
    /// is granted on its own, its directory cannot be written, or its access control list cannot be copied to
    /// another file. If the disk is full or an error occurs, the old content is restored in that case, too;
    /// only the end of the session in the middle leaves a mixture.
    pub atomic: bool,
}

/// Replaces texts in a file: either all of them or none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edit {
    /// The file's path in the sandbox.
    pub path: Bytes,
    /// The replacements. All are searched for in the original content.
    pub edits: Vec<Replacement>,
}

/// A text and its replacement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replacement {
    /// The text to replace. Line breaks match those of the file, however they are written here.
    pub old: String,
    /// The new text.
    pub new: String,
    /// Whether to replace every occurrence; otherwise the text must occur exactly once.
    #[serde(default)]
    pub all: bool,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditDone {
    /// The number of occurrences that were replaced.
    pub replaced: u64,
    /// The line of the first one, counted from 1.
    pub first_line: u64,
    /// Whether no reader could see a partial write, as in [`WriteDone`].
    pub atomic: bool,
}

/// Lists a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct List {
    /// The directory; the working directory if empty.
    #[serde(default = "here")]
    pub path: Bytes,
    /// The most entries to return; 10 000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// The type of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, a FIFO or a socket.
    Special,
}

/// An entry of a directory or of a search result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The name, or in a search result the path relative to the start of the search.
    pub name: Bytes,
    /// The type; a symbolic link is not followed.
    pub kind: EntryKind,
    /// The size of a file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// The content of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListDone {
    /// The entries, sorted by name.
    pub entries: Vec<Entry>,
    /// Whether there are more entries than were returned.
    pub truncated: bool,
}

/// Returns what is at a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stat {
    /// The path in the sandbox.
    pub path: Bytes,
    /// Whether to describe a symbolic link itself instead of its target.
    #[serde(default)]
    pub link: bool,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatDone {
    /// The canonical path.
    pub path: Bytes,
    /// The kind of content or entry.
    pub kind: EntryKind,
    /// The size in bytes.
    pub size: u64,
    /// Permission bits (inode(7)).
    pub mode: u32,
    /// The time of the last modification, in nanoseconds since 1970.
    pub modified: i64,
    /// Whether the session may write it.
    pub writable: bool,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Bytes>,
}

/// Creates a directory and its missing parents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeDirectory {
    /// The directory. It may exist already.
    pub path: Bytes,
}

/// Reports changes at a path and below until it is cancelled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// The file or directory to watch.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Whether to watch subdirectories, except those that `.gitignore` excludes.
    #[serde(default)]
    pub recursive: bool,
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The watch is complete.
    Ready,
    /// The path was created.
    Created,
    /// Its content or attributes changed.
    Modified,
    /// The path was removed.
    Removed,
    /// Events were lost: read the directory again.
    Overflow,
}

/// A change at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The kind of change.
    pub change: Change,
    /// The path that changed; empty if the event is not about one path.
    pub path: Bytes,
}

fn here() -> Bytes {
    ".".into()
}

/// The response of a tool. Only an event is followed by more responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Answer {
    Read(ReadDone),
    Write(WriteDone),
    Edit(EditDone),
    List(ListDone),
    Find(FindDone),
    Grep(GrepDone),
    Stat(StatDone),
    MakeDirectory,
    /// An event; more responses follow.
    Event(Event),
    Failed(ToolError),
}
