//! What is found in a bundle.

use serde::{Deserialize, Serialize};

use crate::api::Api;

/// A reason to refuse a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The file, below the bundle; bytes that are not UTF-8 replaced.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The character in the line, from 1.
    pub column: u32,
    /// What was found.
    pub what: String,
    /// What to use instead.
    pub replacement: String,
}

/// The same within one file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    /// Bytes from the start.
    pub(crate) offset: u32,
    pub(crate) what: String,
    pub(crate) replacement: &'static str,
}

/// What to do about code that cannot be understood.
pub(crate) const SAY_IT: &str = "say it in the source as it is, so that it can be read";

impl Spot {
    /// An interface is reached for.
    pub(crate) fn api(offset: u32, api: Api, how: &str) -> Self {
        Self { offset, what: format!("{api} by {how}"), replacement: api.replacement() }
    }

    /// Returns something could be such an interface.
    pub(crate) fn unclear(offset: u32, what: impl Into<String>) -> Self {
        Self { offset, what: what.into(), replacement: SAY_IT }
    }
}
