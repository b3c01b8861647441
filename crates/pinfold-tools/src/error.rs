//! Why a tool did not do what it was asked.

use std::fmt;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Bytes;

/// The kind of an error, for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorKind {
    /// The path does not exist in the sandbox and lies outside all granted directories.
    Escapes,
    /// The path does not exist.
    NotFound,
    /// The path is a directory.
    IsDirectory,
    /// The path is not a directory.
    NotDirectory,
    /// The path is neither a file nor a directory.
    Special,
    /// The path exists.
    Exists,
    /// The policy or the file's permissions forbid the operation.
    Denied,
    /// The disk is full.
    NoSpace,
    /// The result is larger than one response can carry.
    TooLarge,
    /// The text to replace does not occur.
    NoMatch,
    /// The text to replace occurs more than once.
    Ambiguous,
    /// The file was changed by another process during the operation.
    Changed,
    /// The pattern is invalid.
    Pattern,
    /// The request is invalid.
    Request,
    /// The operation was cancelled.
    Cancelled,
    /// The session or its tools have ended.
    Gone,
    /// Another system error.
    System,
}

/// The error of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolError {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The message for users.
    pub message: String,
    /// The path that caused the error.
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

    /// Returns an error about a path; the path is appended to the message.
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

    /// Returns the error of a service that has ended.
    pub(crate) fn gone() -> Self {
        Self::new(ErrorKind::Gone, "the session's tools have ended")
    }

    /// Returns a system error about a path.
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
