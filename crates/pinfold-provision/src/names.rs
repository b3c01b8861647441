//! Names that end up in paths and addresses, checked once where they are made.

use std::fmt;

use serde::Serialize;

use crate::plain::Plain;

/// A clean relative path inside a layer: no `..`, no `.`, no empty part, no control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct LayerPath(String);

/// A name of an npm package, with its scope if it has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PackageName(String);

/// An exact version of an npm package.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PackageVersion(String);

/// A word that names an agent or a command: letters, digits, `-`, `_`, `.`, not first a dot or dash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Word(String);

/// The base address of an npm registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registry(String);

/// Why a name was refused.
#[derive(Debug, thiserror::Error)]
pub enum NameError {
    /// A path that leaves the layer or is written in an unusual way.
    #[error("`{0}` is not a plain relative path: no `..`, `.`, leading `/` or empty part")]
    Path(String),
    /// Not a package name that npm would accept.
    #[error("`{0}` is not an npm package name")]
    Package(String),
    /// Not an exact version.
    #[error("`{0}` is not an exact version such as `1.2.3`")]
    Version(String),
    /// Not a word.
    #[error("`{0}` is not a name: use letters, digits, `-`, `_` and `.`")]
    Word(String),
    /// Not an address of a registry.
    #[error("`{0}` is not a registry address: use `https://host/path` without query or user")]
    Registry(String),
}

/// The longest name accepted, in bytes; Linux's `PATH_MAX` leaves room for the cache's own path.
const LONGEST: usize = 1024;

/// Names are quoted in errors; an absurd one is cut.
pub(crate) fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(120).collect();
    Plain(&cut).to_string()
}

impl LayerPath {
    /// Checks a path written with `/`.
    ///
    /// # Errors
    /// Returns [`NameError::Path`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let clean = |part: &str| {
            !matches!(part, "" | "." | "..") && !part.contains(['\\', '\0']) && part.len() <= 255
        };
        let fine = text.len() <= LONGEST
            && !text.chars().any(char::is_control)
            && text.split('/').all(clean);
        if fine { Ok(Self(text.to_owned())) } else { Err(NameError::Path(quoted(text))) }
    }

    /// Returns the path as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the rest of this path below `parent`, `None` if it is not below it.
    #[must_use]
    pub fn below(&self, parent: &Self) -> Option<&str> {
        self.0.strip_prefix(parent.as_str())?.strip_prefix('/')
    }

    pub(crate) fn first_part(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }
}

impl PackageName {
    /// Checks `name` or `@scope/name`.
    ///
    /// # Errors
    /// Returns [`NameError::Package`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let (scope, name) = match text.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
            Some((scope, name)) => (Some(scope), name),
            None => (None, text),
        };
        let fine = text.len() <= 214 && is_word(name) && scope.is_none_or(is_word);
        if fine { Ok(Self(text.to_owned())) } else { Err(NameError::Package(quoted(text))) }
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PackageVersion {
    /// Checks an exact version; ranges and tags are refused.
    ///
    /// # Errors
    /// Returns [`NameError::Version`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
        let fine = text.len() <= 128
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text.contains('.')
            && text.chars().all(allowed);
        if fine { Ok(Self(text.to_owned())) } else { Err(NameError::Version(quoted(text))) }
    }

    /// Returns the version as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Word {
    /// Checks the name of an agent or a command.
    ///
    /// # Errors
    /// Returns [`NameError::Word`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let fine = text.len() <= 64 && is_word(text);
        if fine { Ok(Self(text.to_owned())) } else { Err(NameError::Word(quoted(text))) }
    }

    /// Returns the word as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Registry {
    /// Where npm packages come from unless a user says otherwise.
    pub const DEFAULT: &str = "https://registry.npmjs.org";

    /// Checks a base address. Plain `http` is for a registry on the same machine: the digests,
    /// not the transport, decide what is accepted.
    ///
    /// # Errors
    /// Returns [`NameError::Registry`].
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let trimmed = text.trim_end_matches('/');
        let rest = trimmed.strip_prefix("https://").or_else(|| trimmed.strip_prefix("http://"));
        let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '@');
        match rest {
            Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !rest.contains(odd) => {
                Ok(Self(trimmed.to_owned()))
            }
            _ => Err(NameError::Registry(quoted(text))),
        }
    }

    /// Returns the address of a package's tarball, by the registry's convention.
    #[must_use]
    pub fn tarball(&self, name: &PackageName, version: &PackageVersion) -> String {
        let base = name.as_str().rsplit('/').next().unwrap_or(name.as_str());
        format!("{}/{}/-/{base}-{}.tgz", self.0, name.as_str(), version.as_str())
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(['.', '-'])
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '~'))
}

impl fmt::Display for LayerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PackageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for PackageVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
