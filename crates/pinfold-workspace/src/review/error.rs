//! Why changes cannot be looked at, or taken over.

use std::io;
use std::path::PathBuf;

use pinfold_policy::path::Escaped;
use thiserror::Error;

/// Why a session's changes cannot be looked at, or taken over.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// There is no such session.
    #[error("no session {0} has changes to review")]
    Missing(String),
    /// The session still runs.
    #[error("session {0} still runs")]
    Live(String),
    /// Another process holds it.
    #[error("another pinfold is at work on the changes of session {0}")]
    Busy(String),
    /// The workspace is gone, or another directory stands in its place.
    #[error("{workspace} is not the directory that session {session} worked on: {why}")]
    Workspace {
        session: String,
        workspace: String,
        /// What is the matter.
        why: String,
    },
    /// Another version wrote it.
    #[error("the changes of session {session} were recorded by another version ({version})")]
    Version {
        session: String,
        /// The version of the record.
        version: u32,
    },
    /// The machine stopped before everything that the session wrote was on the disk.
    #[error("what session {session} changed is not whole, since the machine stopped: {why}")]
    Cut {
        session: String,
        /// What is the matter.
        why: String,
        /// Where what there is of it lies.
        layer: PathBuf,
    },
    /// The file system said something.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What it said.
        source: io::Error,
    },
}

impl ReviewError {
    /// Returns the hint.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Missing(_) => Some("`pinfold ps --all` lists them".to_owned()),
            Self::Live(_) => Some("let it end first".to_owned()),
            Self::Workspace { session, .. } => {
                Some(format!("put it back, or drop the changes: `pinfold discard {session}`"))
            }
            Self::Version { .. } => Some("use that version for it".to_owned()),
            Self::Cut { session, layer, .. } => Some(format!(
                "what there is of it lies in {}; drop it: `pinfold discard {session}`",
                Escaped(layer)
            )),
            Self::Busy(_) | Self::System { .. } => None,
        }
    }

    pub(crate) fn system(what: impl ToString) -> impl FnOnce(io::Error) -> Self {
        let what = what.to_string();
        move |source| Self::System { what, source }
    }
}
