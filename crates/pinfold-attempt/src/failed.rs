//! Why an attempt has no result.

use std::fmt::Display;

use pinfold_tasks::{Failure, code};

/// The code of a failure because the time is over.
pub(crate) const TIME_IS_OVER: &str = code::RUNNING_TOTAL_EXCEEDED;
/// The code of a failure because the result waits for the user.
pub(crate) const RESULT_WAITS: &str = "result_waits";

/// Why an attempt has no result.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It was asked to end.
    Stopped,
    /// The attempt failed.
    With(Failure),
}

impl Failed {
    /// Returns a failure that another attempt would repeat.
    pub(crate) fn lasting(code: &str, message: impl Into<String>) -> Self {
        Self::with(code, message, Some(false))
    }

    /// Returns a failure that another attempt may not have.
    pub(crate) fn transient(code: &str, message: impl Into<String>) -> Self {
        Self::with(code, message, Some(true))
    }

    /// Returns a failure whose message says whether another attempt may help.
    pub(crate) fn judged(code: &str, message: impl Into<String>) -> Self {
        Self::With(Failure::new(code, message).judged())
    }

    /// Makes a failure of a repository or machine that lacks what an attempt needs.
    pub(crate) fn setup(what: &str, error: impl Display) -> Self {
        Self::lasting("setup_failed", format!("{what}: {error}"))
    }

    /// Returns the commands that verify the result did not pass.
    pub(crate) fn unverified(message: impl Into<String>) -> Self {
        Self::lasting(code::VERIFICATION_FAILED, message)
    }

    fn with(code: &str, message: impl Into<String>, retryable: Option<bool>) -> Self {
        Self::With(Failure { retryable, ..Failure::new(code, message) })
    }
}
