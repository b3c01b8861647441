//! What an approval is for.

use std::path::PathBuf;

/// What a session's approval and a kept rule are for: the same bytes in the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Same {
    pub(crate) name: String,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) cwd: PathBuf,
    pub(crate) remote: Option<String>,
    pub(crate) references: Vec<String>,
}

impl Same {
    /// Returns whether approving this approves the other: it moves no other reference.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let is_known = |reference: &String| self.references.contains(reference);
        let references = self.references.clone();
        other.references.iter().all(is_known) && *self == Self { references, ..other.clone() }
    }
}
