//! Why a launch was refused by a wrapper, or because of one.

use std::io;

use thiserror::Error;

use super::bounds::{LARGEST, PATIENCE};
use crate::Refusal;

/// Why nothing was launched.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WrapError {
    /// The settings cannot be read.
    #[error("the wrappers of launches cannot be read: {0}")]
    Settings(Refusal),
    /// A wrapper refuses, or fails.
    #[error("the wrapper {id} {wrong}")]
    Wrapper {
        id: String,
        /// What is wrong.
        wrong: Wrong,
    },
}

/// What is wrong with a wrapper or its answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Wrong {
    /// It says no.
    #[error("refuses the launch: {0}")]
    Refused(Refusal),
    /// Its program cannot be started, or talked to.
    #[error("cannot be asked: {0}")]
    Io(#[source] io::Error),
    /// It did not end in time.
    #[error("gave no answer within {PATIENCE:?}, or left something that keeps its output open")]
    TimedOut,
    /// Its program may be changed by who should be kept from it.
    #[error("cannot be trusted: {0}")]
    Untrusted(String),
    /// The program failed.
    #[error("failed with status {status}: {said}")]
    Failed {
        status: i32,
        /// The end of what it said.
        said: String,
    },
    /// A signal ended it.
    #[error("was ended by a signal")]
    Signal,
    /// It answered too much.
    #[error("answered more than {LARGEST} bytes")]
    TooLarge,
    /// Its answer is not a context.
    #[error("gave an answer that is not a launch: {0}")]
    Malformed(String),
    /// The launch cannot be described to it.
    #[error("cannot be asked about a launch with {0} that is not UTF-8")]
    NotText(&'static str),
}

impl WrapError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Settings(_) => "`pinfold config` shows what is wrong with the settings",
            Self::Wrapper { .. } => {
                "wrappers come from `wrappers` in config.toml or the administrator's policy.toml; \
                 nothing is launched past one of them"
            }
        }
        .to_owned()
    }
}

impl From<WrapError> for io::Error {
    fn from(error: WrapError) -> Self {
        Self::other(error)
    }
}
