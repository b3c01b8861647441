//! The name of a branch.

use std::fmt;
use std::str::FromStr;

/// A branch as a user calls it, without `refs/heads/`, by the rules of git-check-ref-format(1) with
/// `--branch`, and without control characters beyond ASCII. What that command would expand, such as
/// `@{-1}`, is no name here.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BranchName(String);

/// Why a text is no [`BranchName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not the name of a branch: {why}", .name.escape_debug())]
pub struct InvalidBranch {
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl BranchName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as part of a file's: `/` becomes `-`.
    #[must_use]
    pub fn flat(&self) -> String {
        self.0.replace('/', "-")
    }

    /// Returns the reference.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BranchName {
    type Err = InvalidBranch;

    fn from_str(name: &str) -> Result<Self, InvalidBranch> {
        match mistake(name) {
            None => Ok(Self(name.to_owned())),
            Some(why) => Err(InvalidBranch { name: name.to_owned(), why }),
        }
    }
}

fn mistake(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("it is empty");
    }
    if name.starts_with('-') {
        return Some("it begins with -");
    }
    if name == "HEAD" || name == "@" {
        return Some("git gives this word another meaning");
    }
    if name.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Some("it holds white space or a control character");
    }
    if name.contains(|c: char| "~^:?*[\\".contains(c)) {
        return Some("it holds one of ~ ^ : ? * [ \\");
    }
    if name.contains("..") || name.contains("@{") {
        return Some("it holds .. or @{");
    }
    let part = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    if name.split('/').any(part) {
        return Some("a part of it is empty, begins or ends with a dot, or ends with .lock");
    }
    None
}
