//! Why a workspace is not opened to a session.

use std::io;

use pinfold_host::Refusal;
use pinfold_policy::path::PathError;
use thiserror::Error;

/// Why a workspace is not opened to a session.
#[derive(Debug, Error)]
pub enum GuardError {
    /// The settings, the workspace or the machine contradict each other.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The system refused something.
    #[error(transparent)]
    System(io::Error),
}

impl GuardError {
    pub(crate) fn refused(what: impl ToString, hint: Option<String>) -> Self {
        Refusal::new(what).with_hint(hint).into()
    }

    pub(crate) fn path(error: PathError) -> Self {
        Refusal::new(error).into()
    }
}
