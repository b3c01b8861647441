//! The caller's environment as a source.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use serde::{Deserialize, Serialize};

/// A name that is no variable's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a valid environment variable name: use letters, digits and `_`")]
pub struct InvalidEnvName {
    /// The name given.
    pub name: String,
}

/// The name of an environment variable: `[A-Za-z_][A-Za-z0-9_]*` (POSIX.1-2017, 3.235).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EnvName(String);

impl EnvName {
    /// Checks a name.
    ///
    /// # Errors
    /// Returns an error if it is no portable variable name.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidEnvName> {
        let name = name.into();
        let first = |b: u8| b.is_ascii_alphabetic() || b == b'_';
        let bytes = name.as_bytes();
        let valid = bytes.first().is_some_and(|&b| first(b))
            && bytes.iter().all(|&b| first(b) || b.is_ascii_digit());
        if valid { Ok(Self(name)) } else { Err(InvalidEnvName { name }) }
    }

    /// Returns the name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for EnvName {
    type Error = InvalidEnvName;

    fn try_from(name: String) -> Result<Self, InvalidEnvName> {
        Self::new(name)
    }
}

impl From<EnvName> for String {
    fn from(name: EnvName) -> Self {
        name.0
    }
}

/// Returns whether a variable is set and not empty, **without copying its value**.
///
/// The standard library has only copying accessors, and a copy made here would be in the
/// memory of every process that is cloned from this one later.
#[must_use]
pub fn env_is_set(name: &str) -> bool {
    let Ok(name) = CString::new(OsStr::new(name).as_bytes()) else { return false };
    // SAFETY: `name` is NUL-terminated and lives across the call. The pointer returned is into
    // the environment, which nothing in this program edits (`std::env::set_var` is forbidden
    // by lint), so reading one byte of a NUL-terminated string behind it is in bounds.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        !value.is_null() && *value != 0
    }
}
