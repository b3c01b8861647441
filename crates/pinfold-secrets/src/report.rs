//! What a look for a secret found, and where.

use std::fmt;
use std::path::PathBuf;

use crate::{AuthMode, EnvName, SecretId};

/// A place that may hold a secret. Its `Display` names the place, never a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of the store.
    File(PathBuf),
    /// A variable of the caller's environment.
    Env(EnvName),
    /// A command that prints it.
    Command(Vec<String>),
    /// The keyring of the desktop session.
    Keyring,
    /// A login of the store, which is refreshed.
    Login(PathBuf),
}

impl Place {
    /// Returns the word for this kind of place in machine-readable output.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Env(_) => "env",
            Self::Command(_) => "command",
            Self::Keyring => "keyring",
            Self::Login(_) => "login",
        }
    }

    /// Returns the path, variable or command.
    #[must_use]
    pub fn location(&self) -> String {
        match self {
            Self::File(path) | Self::Login(path) => path.display().to_string(),
            Self::Env(name) => name.to_string(),
            Self::Command(argv) => argv.join(" "),
            Self::Keyring => "service pinfold".to_owned(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.location())
    }
}

/// The place a secret will be taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub place: Place,
    /// What kind of credential.
    pub auth: AuthMode,
}

/// A place that was looked at and holds nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    pub place: Place,
    /// What was seen there, as a fragment: `not set`, `no such file`.
    pub outcome: &'static str,
}

/// The answer of [`crate::Store::check`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The secret asked for.
    pub id: SecretId,
    /// Where it is, if anywhere. For a command or the keyring: where it is said to be; neither
    /// is run or opened by a check.
    pub found: Option<Found>,
    /// The places that were looked at before and hold nothing, in order.
    pub looked: Vec<Looked>,
}
