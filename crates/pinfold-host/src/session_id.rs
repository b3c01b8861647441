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
pub enum BadName {
    /// It has other characters, or too many.
    #[error(
        "a session's name consists of letters, digits, '.', '_' and '-', 63 at most, and does not begin with '-'"
    )]
    Form,
    /// pinfold uses it itself.
    #[error("this name is reserved; choose another one")]
    Reserved,
    /// It has only digits that an id has.
    #[error(
        "it could be the beginning of a session's id, which has only the digits 0-9 and a-f; add another letter or '-'"
    )]
    LikeAnId,
}

impl std::str::FromStr for SessionName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let fits = (1..=63).contains(&text.len()) && !text.starts_with('-');
        if !fits || !text.bytes().all(is_part) {
            return Err(BadName::Form);
        }
        if matches!(text, "." | ".." | "lock") {
            return Err(BadName::Reserved);
        }
        if SessionId::could_begin(text) {
            return Err(BadName::LikeAnId);
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_name_says_which_rule_it_breaks() {
        let parse = |text: &str| text.parse::<SessionName>().map_err(|error| error.to_string());
        assert_eq!(parse("night-1").unwrap().as_str(), "night-1");
        for (name, says) in [
            ("d1", "beginning of a session's id"),
            ("feed", "beginning of a session's id"),
            ("lock", "reserved"),
            ("-x", "does not begin with '-'"),
            ("a/b", "consists of letters"),
        ] {
            let error = parse(name).unwrap_err();
            assert!(error.contains(says), "{name}: {error}");
        }
    }
}
