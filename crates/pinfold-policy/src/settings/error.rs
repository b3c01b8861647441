//! What can be wrong with settings.

use crate::document::FileError;
use crate::env::{EnvName, Reserved};
use crate::origin::{Origin, Valued};

/// Why settings cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A mistake in a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// `sandbox.json` and `sandbox.toml` are both there.
    #[error("both {first} and {second} are present; keep one")]
    TwoProjectFiles {
        /// The first file.
        first: String,
        /// The second file.
        second: String,
    },
    /// A section of Ralph's file is something else than an object; Ralph's own words.
    #[error("'{section}' section in {file} must be an object")]
    NoObject { section: &'static str, file: String },
    /// A value is above the administrator's.
    #[error("{key}: {asked} is above {}, the ceiling set by {}", .ceiling.value, .ceiling.origin)]
    AboveCeiling {
        key: &'static str,
        /// What was asked for, and by whom.
        asked: Box<Valued<String>>,
        /// The most that is allowed.
        ceiling: Box<Valued<String>>,
    },
    /// A choice is weaker than the administrator's.
    #[error("{key}: {asked} is weaker than {}, required by {}", .ceiling.value, .ceiling.origin)]
    TooWeak {
        key: &'static str,
        /// What was chosen, and by whom.
        asked: Box<Valued<String>>,
        /// The weakest that is allowed.
        ceiling: Box<Valued<String>>,
    },
    /// A repository needs a stronger wall than the one that was chosen.
    #[error("boundary: {} needs at least {}, and {chosen} is weaker", .asked.origin, .asked.value)]
    WeakWall {
        /// What the repository needs.
        asked: Box<Valued<String>>,
        /// What was chosen, and by whom.
        chosen: Box<Valued<String>>,
    },
    /// Two secrets want the same variable.
    #[error("{origin}: {name} already holds the placeholder of the secret at {other}")]
    TwoSecrets {
        /// Where the second is.
        origin: Origin,
        name: EnvName,
        /// Where the first is.
        other: Origin,
    },
    /// A group's name cannot be a file's name.
    #[error(transparent)]
    Group(#[from] InvalidGroup),
    /// Two groups would have the same files.
    #[error("group {} would have the files of group {}", .group.escape_debug(), .other.escape_debug())]
    SharedFolder { group: String, other: String },
    /// A choice is not among the administrator's.
    #[error("{key}: {asked} is not allowed by {}, which allows {}", .ceiling.origin, .ceiling.value)]
    NotAllowed {
        key: &'static str,
        /// What was chosen, and by whom.
        asked: Box<Valued<String>>,
        /// What may be chosen.
        ceiling: Box<Valued<String>>,
    },
    /// A reserved environment variable.
    #[error("{origin}: environment variable {name} is reserved, because {}", .rule.reason)]
    Reserved {
        /// Who set it.
        origin: Origin,
        name: EnvName,
        /// Why it is reserved.
        rule: Reserved,
    },
}

impl SettingsError {
    /// Returns what a user can do, where the message does not say it already.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::File(_) | Self::TwoProjectFiles { .. } | Self::NoObject { .. } => None,
            Self::WeakWall { asked, .. } => {
                Some(format!("choose {} or a stronger one, or leave --boundary out", asked.value))
            }
            Self::AboveCeiling { .. } | Self::TooWeak { .. } | Self::NotAllowed { .. } => {
                Some("ask the administrator of this machine, or choose what is allowed".to_owned())
            }
            Self::Group(_) => None,
            Self::SharedFolder { .. } => {
                Some("give each group a `folder` of its own in your config.toml".to_owned())
            }
            Self::TwoSecrets { .. } => Some("give each secret a variable of its own".to_owned()),
            Self::Reserved { .. } => Some("remove it".to_owned()),
        }
    }
}

/// A group's name names no directory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{}\" is not a valid name for a group's files: expected letters, digits, dots, dashes and underscores, \
     first a letter or digit", .0.escape_debug()
)]
pub struct InvalidGroup(pub String);
