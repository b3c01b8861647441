//! Environment variables: valid names, names that are not free, and the order of their sources.

mod compose;
mod reserved;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use compose::{EnvLayer, EnvVar, compose_env};
pub use reserved::{Owner, Reserved, reserved};

/// The name of an environment variable: letters, digits and `_`, not beginning with a digit
/// (POSIX.1-2017, XBD 8.1; lower case is allowed as programs use it).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvName(Arc<str>);

/// Why a name is no environment variable's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{}\" is not the name of an environment variable: use letters, digits and `_`, not \
     beginning with a digit",
    .0.escape_debug()
)]
pub struct EnvNameError(String);

/// The same rule as a regular expression, for published schemas.
pub const NAME_PATTERN: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

impl EnvName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EnvName {
    type Err = EnvNameError;

    fn from_str(text: &str) -> Result<Self, EnvNameError> {
        let starts_well = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
        if starts_well && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            Ok(Self(text.into()))
        } else {
            Err(EnvNameError(text.to_owned()))
        }
    }
}

impl fmt::Display for EnvName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
