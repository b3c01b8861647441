//! Where a specification is kept.

use std::path::PathBuf;

use pinfold_host::Refusal;
use pinfold_tasks::SpecStatus;

use crate::document::Document;

/// What somebody said of a specification whose words count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    pub author: String,
    pub body: String,
}

/// Where a specification is kept.
pub trait Home {
    /// Returns what people call it.
    fn name(&self) -> String;

    /// Returns versions that were left next to it when a loop was killed in the middle of writing. One may be what somebody
    /// saved at that moment.
    fn leftovers(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns the most bytes that it can hold.
    fn most(&self) -> usize;

    /// Reads the specification as it is now.
    ///
    /// # Errors
    /// Returns a refusal for what cannot be read or is not a specification.
    fn read(&mut self) -> Result<Document, Refusal>;

    /// Puts another text there, unless it has changed since it was read. Returns whether it had not.
    ///
    /// # Errors
    /// Returns a refusal if it cannot be read or written.
    fn write(&mut self, known: &Document, new: &Document) -> Result<bool, Refusal>;

    /// Returns how far the specification is, if that is said there.
    fn status(&self, known: &Document) -> Option<SpecStatus>;

    /// Says there how far the specification is, and returns it as it is then.
    ///
    /// # Errors
    /// Returns a refusal if it cannot be read or written.
    fn set_status(&mut self, known: &Document, status: SpecStatus) -> Result<Document, Refusal>;

    /// Returns what was said of it by those whose words count, the oldest first.
    fn comments(&self) -> &[Comment];

    /// Returns which of what it depends on are not done.
    ///
    /// # Errors
    /// Returns a refusal for a name that means nothing there.
    fn unmet(&self, depends: &[String]) -> Result<Vec<String>, Refusal>;
}
