//! Everything that can go wrong with a secret. No variant ever holds a value.

use std::io;
use std::path::PathBuf;

use crate::env::InvalidEnvName;
use crate::id::InvalidSecretId;
use crate::{InvalidSecret, Place, SecretId};

/// Why a secret could not be kept, found or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that is no id.
    #[error(transparent)]
    BadId(#[from] InvalidSecretId),
    /// A name that is no variable.
    #[error(transparent)]
    BadEnvName(#[from] InvalidEnvName),
    /// There is no such secret anywhere.
    #[error("no secret `{id}`{}; set one with `pinfold secret set {id}`", looked_at(.looked))]
    Missing {
        /// The secret asked for.
        id: SecretId,
        /// The places that hold nothing.
        looked: Vec<Place>,
    },
    /// What a source gave is not usable.
    #[error("the secret in {place} is not usable: {cause}")]
    Unusable {
        place: Place,
        /// What is wrong with it.
        cause: InvalidSecret,
    },
    /// Others may read or replace the file.
    #[error("{} may be read by others (mode {mode:04o}); run `chmod {wanted:o} {}`", .path.display(), .path.display())]
    ModeTooWide {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The bits it should have.
        wanted: u32,
    },
    /// The file is another user's.
    #[error("{} belongs to uid {owner}, not to you (uid {uid}); remove it or take it over", .path.display())]
    ForeignOwner {
        /// The file or directory.
        path: PathBuf,
        /// Who owns it.
        owner: u32,
        /// The user who asks.
        uid: u32,
    },
    /// A symbolic link, a FIFO or the like where a file should be.
    #[error("{} is {kind}, not {wanted}; remove it and set the secret again", .path.display())]
    WrongKind {
        path: PathBuf,
        /// What it is.
        kind: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// The record next to a secret cannot be read.
    #[error("{} is not a record of a secret ({cause}); set the secret again", .path.display())]
    BadRecord {
        path: PathBuf,
        /// What the parser says.
        cause: serde_json::Error,
    },
    /// A login cannot be read.
    #[error("{} is not a login that pinfold keeps; import it again (`pinfold secret import`)", .path.display())]
    BadLogin { path: PathBuf },
    /// A file operation failed.
    #[error("cannot {action} {}: {cause}", .path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// There is neither a usable `XDG_CONFIG_HOME` nor a `HOME`.
    #[error("no place for secrets: set HOME or XDG_CONFIG_HOME to an absolute path")]
    NoHome,
    /// A command was given as an empty list.
    #[error("the command for secret `{id}` is empty; name a program, such as `gh auth token`")]
    EmptyCommand { id: SecretId },
    /// The command could not be started.
    #[error("cannot run `{command}` for a secret: {cause}")]
    CommandStart {
        /// The command line.
        command: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The command ended badly.
    #[error("`{command}` gave no secret: it {ended}{}", said(.stderr))]
    CommandFailed {
        /// The command line.
        command: String,
        /// `exited with 1`, `was killed by a signal`.
        ended: String,
        /// What it printed on standard error, shortened.
        stderr: String,
    },
    /// The keyring's program is not installed.
    #[error(
        "no keyring here: `secret-tool` is not installed; install libsecret's tools, or keep the \
         secret in a file with `pinfold secret set {id}`"
    )]
    NoKeyring { id: SecretId },
}

fn looked_at(looked: &[Place]) -> String {
    if looked.is_empty() {
        return String::new();
    }
    let places: Vec<String> = looked.iter().map(ToString::to_string).collect();
    format!(" (looked at {})", places.join(", "))
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(", saying: {stderr}") }
}
