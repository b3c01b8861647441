//! What can be wrong with a settings file.

use std::fmt;

use crate::origin::Place;

/// A mistake in a settings file: where it is, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError(Box<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    place: Place,
    key: String,
    fault: Fault,
}

/// What is wrong at a place in a settings file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// The file is not JSON or TOML.
    #[error("{0}")]
    Syntax(String),
    /// A key that nothing reads.
    #[error("unknown key{}", nearest_hint(.nearest.as_deref()))]
    Unknown {
        /// The known key that resembles it.
        nearest: Option<String>,
    },
    /// A required key is absent.
    #[error("missing; it must be given")]
    Missing,
    /// A value of the wrong type or form.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What was expected.
        expected: String,
        /// The kind of value found.
        found: &'static str,
    },
    /// A value of the right type that cannot be.
    #[error("{0}")]
    Invalid(String),
}

/// Returns how an error about an unknown name goes on: with the name that was meant, if one is near.
pub fn nearest_hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

impl FileError {
    /// Returns a mistake at a place, in the value of a dotted key; the key is empty for the whole file.
    #[must_use]
    pub fn new(place: Place, key: String, fault: Fault) -> Self {
        Self(Box::new(Inner { place, key, fault }))
    }

    /// Returns file and line.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// Returns the dotted key; empty when the mistake is not in a key's value.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// Returns what is wrong.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.0.fault
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { place, key, fault } = &*self.0;
        match (key.as_str(), fault) {
            ("", _) => write!(f, "{place}: {fault}"),
            (key, _) => write!(f, "{place}: {key}: {fault}"),
        }
    }
}

impl std::error::Error for FileError {}
