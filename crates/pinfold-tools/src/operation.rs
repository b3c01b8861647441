//! What can be asked of a session's tools, and what they answer.
//!
//! Paths are the sandbox's; a relative one begins at the session's working directory. Content of
//! files follows these messages, as bytes.

mod search;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use search::{Find, FindDone, Grep, GrepDone, GrepLine, GrepMode, LineKind};

use crate::{Bytes, ToolError};

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Operation {
    /// Read a file.
    Read(Read),
    /// Write a file whole.
    Write(Write),
    /// Replace text in a file.
    Edit(Edit),
    /// List a directory.
    List(List),
    /// Find files by their names.
    Find(Find),
    /// Find lines of files.
    Grep(Grep),
    /// Tell what there is at a path.
    Stat(Stat),
    /// Make a directory with those above it.
    MakeDirectory(MakeDirectory),
    /// Tell what changes, until it is cancelled.
    Watch(Watch),
}

/// Reads a file or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Read {
    /// The file.
    pub path: Bytes,
    /// Which part; all of it for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Range {
    /// So many bytes at most.
    #[serde(rename_all = "camelCase")]
    Bytes {
        /// From this one on, counted from 0.
        offset: u64,
        /// The number of bytes.
        length: u64,
    },
    /// So many lines at most.
    #[serde(rename_all = "camelCase")]
    Lines {
        /// From this one on, counted from 1.
        first: u64,
        /// The number of lines.
        count: u64,
    },
}

/// What the content of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ContentKind {
    /// UTF-8 without NUL bytes, as far as was looked.
    Text,
    /// An image of a known format.
    Image,
    /// Anything else.
    Binary,
}

/// What was read, in addition to the content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadDone {
    /// The file's size in bytes.
    pub size: u64,
    /// What it is.
    pub kind: ContentKind,
    /// The media type of an image (RFC 6838).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    /// How many lines the file has, where lines were asked for; none for a file of more than 256 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
}

/// Puts content into a file, all at once: a reader sees the old or the new one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Write {
    /// The file. What it leads to, if it is a symbolic link.
    pub path: Bytes,
    /// Whether directories above it are made.
    #[serde(default)]
    pub parents: bool,
    /// Whether it must not be there yet.
    #[serde(default)]
    pub new: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WriteDone {
    /// The file's size in bytes.
    pub size: u64,
    /// Whether there was none before.
    pub created: bool,
    /// Whether others could never see half of it. False where the file could only be written over: it
    /// is granted by itself, its directory cannot be written, or its access list cannot be given to
    /// another file. Without room for it, or on an error, its content is as it was then as well; only
    /// what ends the session in the middle leaves some of both.
    pub atomic: bool,
}

/// Replaces text in a file: all of it, or nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Edit {
    /// The file.
    pub path: Bytes,
    /// What to replace. All are looked for in the file as it was.
    pub edits: Vec<Replacement>,
}

/// A text and what comes in its place.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Replacement {
    /// What is there. Line ends are those of the file, however they are given here.
    pub old: String,
    /// What is to be there.
    pub new: String,
    /// Whether every place is meant, and not the only one.
    #[serde(default)]
    pub all: bool,
}

/// What was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EditDone {
    /// How many places.
    pub replaced: u64,
    /// The line of the first, counted from 1.
    pub first_line: u64,
    /// As of [`WriteDone`].
    pub atomic: bool,
}

/// Lists a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct List {
    /// The directory; the working directory for none.
    #[serde(default = "here")]
    pub path: Bytes,
    /// How many entries at most; 10 000 for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// What there is.
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

/// One name in a directory, or one that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The name; of what was found the path from where the search began.
    pub name: Bytes,
    /// What it is; of a symbolic link not what it leads to.
    pub kind: EntryKind,
    /// Bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// What is in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListDone {
    /// By their names.
    pub entries: Vec<Entry>,
    /// Whether there are more.
    pub truncated: bool,
}

/// Tells what there is at a path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stat {
    /// The path.
    pub path: Bytes,
    /// Whether a symbolic link itself is meant, and not what it leads to.
    #[serde(default)]
    pub link: bool,
}

/// What there is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatDone {
    /// Where it is, without links on the way.
    pub path: Bytes,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    /// Permission bits (inode(7)).
    pub mode: u32,
    /// When its content was changed last: nanoseconds since 1970.
    pub modified: i64,
    /// Whether it can be written in this session.
    pub writable: bool,
    /// Where a symbolic link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Bytes>,
}

/// Makes a directory with those above it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeDirectory {
    /// The directory. That it is there already is no error.
    pub path: Bytes,
}

/// Tells what changes at a path or below, until it is cancelled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Watch {
    /// The file or directory.
    #[serde(default = "here")]
    pub path: Bytes,
    /// Whether directories below are watched, too; not those that `.gitignore` leaves out.
    #[serde(default)]
    pub recursive: bool,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Everything is watched from now on.
    Ready,
    /// It is there now.
    Created,
    /// Its content, or its attributes, changed.
    Modified,
    /// It is gone from there.
    Removed,
    /// More happened than could be reported: look again.
    Overflow,
}

/// A change that was seen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// Where; nothing for what is about no single place.
    pub path: Bytes,
}

fn here() -> Bytes {
    ".".into()
}

/// What tools answer. More follows only what says so.
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
    /// More follows.
    Event(Event),
    Failed(ToolError),
}
