//! What an agent reads when a tool refuses or fails: a title and a detail, as MoltNet's server has them.

use std::fmt;

use crate::MemoryError;

/// Why a tool gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    title: &'static str,
    detail: String,
    /// The value that is wrong, as a JSON pointer, and why.
    fault: Option<(&'static str, String)>,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.title.is_empty() {
            return f.write_str(&self.detail);
        }
        write!(f, "{}: {}", self.title, self.detail)
    }
}

impl std::error::Error for ToolError {}

impl ToolError {
    /// Returns the title of the error; empty for one that a tool itself gives.
    #[must_use]
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// Returns what went wrong.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns which value is wrong, as a JSON pointer, and why, if it is one.
    #[must_use]
    pub fn fault(&self) -> Option<(&'static str, &str)> {
        self.fault.as_ref().map(|(field, reason)| (*field, reason.as_str()))
    }

    fn new(title: &'static str, detail: impl Into<String>) -> Self {
        Self { title, detail: detail.into(), fault: None }
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::new("Validation Failed", detail)
    }

    /// Returns an error that a tool itself gives, without a server's title.
    pub(super) fn plain(detail: impl Into<String>) -> Self {
        Self::new("", detail)
    }

    pub(super) fn not_found(what: &str) -> Self {
        Self::new("Not Found", format!("{what} not found"))
    }

    pub(super) fn forbidden(detail: &str) -> Self {
        Self::new("Forbidden", detail)
    }

    pub(super) fn unavailable(detail: String) -> Self {
        Self::new("Service Unavailable", detail)
    }
}

impl From<MemoryError> for ToolError {
    fn from(error: MemoryError) -> Self {
        let detail = error.to_string();
        match error {
            MemoryError::Invalid { field, reason } => {
                Self { fault: Some((field, reason)), ..Self::invalid(detail) }
            }
            MemoryError::Secret { .. }
            | MemoryError::BadLine(_)
            | MemoryError::NoEntries { .. }
            | MemoryError::BadPack(_) => Self::invalid(detail),
            MemoryError::NoEntry(_) => Self::not_found("Diary entry"),
            MemoryError::NoPack(_) => Self::not_found("Context pack"),
            MemoryError::NotInDiary(what) => Self::not_found(what),
            MemoryError::Flagged(_)
            | MemoryError::Conflict
            | MemoryError::Signed
            | MemoryError::SignatureUsed => Self::new("Conflict", detail),
            MemoryError::UnknownKey(_)
            | MemoryError::NoDiary { .. }
            | MemoryError::Partly { .. }
            | MemoryError::Server(_)
            | MemoryError::Untrusted(_) => Self::plain(detail),
            MemoryError::Store(_) => Self::unavailable(detail),
        }
    }
}
