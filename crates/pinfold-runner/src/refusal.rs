//! Why a request is refused.

use std::fmt;

use rustix::io::Errno;

/// What is refused and why, with what a user or an administrator can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong with what.
    pub what: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Refusal {
    /// Returns one with a hint.
    pub fn new(what: impl fmt::Display, hint: impl fmt::Display) -> Self {
        Self { what: plain(what), hint: Some(plain(hint)) }
    }

    /// Returns one without a hint: a caller that is not pinfold, or a system that fails.
    pub fn plain(what: impl fmt::Display) -> Self {
        Self { what: plain(what), hint: None }
    }

    /// Returns what makes one of the error of a call, with what it was about.
    pub(crate) fn at(what: impl fmt::Display) -> impl Fn(Errno) -> Self {
        move |errno| Self::plain(format!("{what}: {errno}"))
    }
}

/// Returns a text without control characters: it may quote what somebody else wrote, and is read on a terminal.
fn plain(text: impl fmt::Display) -> String {
    text.to_string().chars().filter(|c| !c.is_control()).collect()
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {}
