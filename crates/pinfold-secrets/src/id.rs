//! The name of a secret.

use std::fmt;

/// Longest accepted id, in bytes: a file name with room for a prefix.
const MAX_LEN: usize = 64;

/// A name that is no id of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a valid secret id: use at most 64 of a-z, 0-9, `.`, `_` and `-`, beginning with \
     a letter or a digit"
)]
pub struct InvalidSecretId {
    /// The name given.
    pub name: String,
}

/// The name of a secret: `[a-z0-9][a-z0-9._-]*`, so that it is also a safe file name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretId(String);

impl SecretId {
    /// Checks a name.
    ///
    /// # Errors
    /// Returns an error if the name is empty, is too long or has other characters.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidSecretId> {
        let name = name.into();
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let bytes = name.as_bytes();
        let valid = bytes.len() <= MAX_LEN
            && bytes.first().is_some_and(|&b| plain(b))
            && bytes.iter().all(|&b| plain(b) || b"._-".contains(&b));
        if valid { Ok(Self(name)) } else { Err(InvalidSecretId { name }) }
    }

    /// Returns the name itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SecretId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for SecretId {
    type Err = InvalidSecretId;

    fn from_str(name: &str) -> Result<Self, InvalidSecretId> {
        Self::new(name)
    }
}
