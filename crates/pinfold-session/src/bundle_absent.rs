//! Stands in for `bundle` in a build without the feature `guard`. It has the same interface, and
//! refuses every bundle.

use std::path::Path;

use serde::Serialize;

/// Whether the packages that a bundle brings are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeModules {
    /// They are checked.
    Included,
    /// They are skipped.
    LeftOut,
}

/// A reason to refuse a bundle. This build never makes one.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub file: String,
    pub line: u32,
    pub column: u32,
    pub what: String,
    pub replacement: String,
}

/// The result of a check. This build never makes one.
#[derive(Debug)]
pub struct Checked {
    pub files: usize,
    pub findings: Vec<Finding>,
}

/// Why a bundle is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The parser of JavaScript is missing.
    #[error("this executable was built without the feature `guard`, so it cannot check a bundle")]
    NotBuiltIn,
}

impl CheckError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let build = "cargo install --profile dist --features guard --path crates/pinfold";
        Some(format!("build one that can: `{build}`"))
    }
}

/// Refuses a bundle.
///
/// # Errors
/// Returns [`CheckError::NotBuiltIn`] always.
pub fn check(_: &Path, _: NodeModules) -> Result<Checked, CheckError> {
    Err(CheckError::NotBuiltIn)
}

/// Refuses the files that standard input names.
///
/// # Errors
/// Returns [`CheckError::NotBuiltIn`] always.
pub fn read(_: &Path) -> Result<(), CheckError> {
    Err(CheckError::NotBuiltIn)
}
