//! How a session is named: by its id, and by the user.

use std::io;

use data_encoding::HEXLOWER;

/// A session's name: twelve hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionId(pub(crate) String);

impl SessionId {
    /// Returns a new one.
    ///
    /// # Errors
    /// Returns the error of `getrandom(2)`.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0_u8; 6];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self(HEXLOWER.encode(&bytes)))
    }

    /// Returns a name that was written down.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_name = text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_name.then(|| Self(text.to_owned()))
    }

    /// Returns whether a text could be the beginning of one.
    #[must_use]
    pub fn could_begin(text: &str) -> bool {
        (1..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that a user gave a session: letters, digits, `.`, `_` and `-`, at most 63, and no dash at
/// the beginning. None that could be a session's id: it would stand for another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionName(String);

impl SessionName {
    /// Returns it as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The error for an invalid session name.
#[derive(Debug, thiserror::Error)]
#[error(
    "a session's name has letters, digits, '.', '_' and '-', 63 at most, and begins with no '-'; it is not \
     '.', '..' or 'lock', nor up to 12 hexadecimal digits, which are an id"
)]
pub struct BadName;

impl std::str::FromStr for SessionName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=63).contains(&text.len()) && !text.starts_with('-');
        let is_taken = matches!(text, "." | ".." | "lock") || SessionId::could_begin(text);
        if fits && !is_taken && text.bytes().all(is_part) {
            Ok(Self(text.to_owned()))
        } else {
            Err(BadName)
        }
    }
}
