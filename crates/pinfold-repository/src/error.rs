//! Why a repository's files cannot be used.

use std::io;
use std::path::PathBuf;

use pinfold_host::digest::ContentHash;
use pinfold_policy::path::{Brief, Escaped};
use pinfold_policy::settings::SettingsError;
use thiserror::Error;

/// Why a repository's files cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// A file that cannot be read.
    #[error("cannot read {}: {cause}", Escaped(.path))]
    Read { path: PathBuf, cause: io::Error },
    /// A mistake in one.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Its commands name more than can be looked over at each start.
    #[error("the command `{}` names too many files to be trusted", Brief(.command.as_ref()))]
    TooWide { command: String },
    /// A hash was given and there is no file that it could be of.
    #[error("there is no sandbox.json or sandbox.toml whose content could be trusted")]
    NoFile,
    /// A hash was given, and the content has another.
    #[error(
        "the content of {file} is {found}, not {given}: it, or what it runs or runs on, has changed"
    )]
    Changed {
        file: String,
        /// The hash that was given.
        given: ContentHash,
        /// The content's own.
        found: ContentHash,
    },
}

impl RepositoryError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Changed { .. } => {
                Some("look at what it asks for with `pinfold trust`, then give its hash".to_owned())
            }
            Self::TooWide { .. } => {
                Some("put it into a script of the repository, and name that".to_owned())
            }
            Self::Read { .. } | Self::NoFile => None,
        }
    }
}
