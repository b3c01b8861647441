//! Why a tool did not do what it was asked.

use std::fmt;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// The kinds, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The path does not exist in the sandbox, and lies outside everything that the session has.
    Escapes,
    /// There is nothing at the path.
    NotFound,
    /// There is a directory.
    IsDirectory,
    /// There is no directory.
    NotDirectory,
    /// It is neither a file nor a directory.
    Special,
    /// It is there already.
    Exists,
    /// The policy, or the file's permissions, forbid it.
    Denied,
    /// There is no room.
    NoSpace,
    /// It is larger than one answer carries.
    TooLarge,
    /// The text to be replaced is not there.
    NoMatch,
    /// The text to be replaced is there several times.
    Ambiguous,
    /// Something else changed the file since it was read.
    Changed,
    /// A pattern that cannot be read.
    Pattern,
    /// A request that makes no sense.
    Request,
    /// It was taken back.
    Cancelled,
    /// The session or its tools have ended.
    Gone,
    /// What else the system says.
    System,
}

/// Why a tool did not do what it was asked, and about what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// The kind.
    pub kind: ErrorKind,
    /// The text for people.
    pub message: String,
    /// The path that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Bytes>,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

impl ToolError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), path: None }
    }

    /// Returns an error about a path, which the message ends with.
    pub(crate) fn about(kind: ErrorKind, what: &str, path: &Bytes) -> Self {
        let message = format!("{what}: {}", path.to_text());
        Self { kind, message, path: Some(path.clone()) }
    }

    pub(crate) fn escapes(path: &Bytes) -> Self {
        Self::about(ErrorKind::Escapes, "path escapes workspace", path)
    }

    pub(crate) fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "cancelled")
    }

    /// Makes the error of a service that does not answer any more.
    pub(crate) fn gone() -> Self {
        Self::new(ErrorKind::Gone, "the session's tools have ended")
    }

    /// Returns what the system said about a path.
    pub(crate) fn system(path: &Bytes) -> impl FnOnce(Errno) -> Self {
        move |errno| {
            let (kind, what) = match errno {
                Errno::NOENT => (ErrorKind::NotFound, "no such file or directory"),
                Errno::ISDIR => (ErrorKind::IsDirectory, "is a directory"),
                Errno::NOTDIR => (ErrorKind::NotDirectory, "not a directory"),
                Errno::EXIST => (ErrorKind::Exists, "exists already"),
                Errno::ACCESS | Errno::PERM => (ErrorKind::Denied, "permission denied"),
                Errno::ROFS => (ErrorKind::Denied, "read-only in this session"),
                Errno::BUSY => (ErrorKind::Denied, "protected in this session"),
                Errno::NXIO => (ErrorKind::Special, "not a regular file"),
                Errno::NOSPC | Errno::DQUOT => (ErrorKind::NoSpace, "no space left"),
                Errno::FBIG => (ErrorKind::TooLarge, "too large"),
                other => {
                    let error = std::io::Error::from(other);
                    return Self::about(ErrorKind::System, &error.to_string(), path);
                }
            };
            Self::about(kind, what, path)
        }
    }
}
