//! Ids of teams, agents and diaries.

use std::fmt;
use std::io;
use std::str::FromStr;

use pinfold_tasks::TaskId;

/// A UUID of any version (RFC 9562), in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(String);

/// The error for a text that is not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a UUID, such as 4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11")]
pub struct InvalidUuid;

impl Uuid {
    /// Returns a new one.
    ///
    /// # Errors
    /// Returns the error of getrandom(2).
    pub fn generate() -> io::Result<Self> {
        Ok(Self(TaskId::generate()?.to_string()))
    }

    /// Returns it as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Self, InvalidUuid> {
        let text = text.to_ascii_lowercase();
        text.parse::<TaskId>().map_err(|_| InvalidUuid)?;
        Ok(Self(text))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
