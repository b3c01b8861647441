//! The ids of tasks, and the tokens of attempts.

use std::fmt;
use std::io;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use pinfold_content::Uuid;
use rustix::rand::{GetRandomFlags, getrandom};

/// The id of a task: a UUID of version 4 (RFC 9562), as MoltNet's task API has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(Uuid);

/// What proves that a worker holds an attempt. The worker makes it before it claims, so a claim whose answer was
/// lost can be repeated.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token([u8; 16]);

/// The error for a text that is not an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a task's id, such as 4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11")]
pub struct InvalidId;

impl TaskId {
    /// Returns a new id.
    ///
    /// # Errors
    /// Returns the error of `getrandom(2)`.
    pub fn generate() -> io::Result<Self> {
        Uuid::generate().map(Self)
    }

    /// Returns the id that has these random bits.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_random(bytes))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TaskId {
    type Err = InvalidId;

    /// Reads an id as it is shown: an id has one text, which is a key of stores and a name of files.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let id = Self(text.parse().map_err(|_| InvalidId)?);
        if id.to_string() == text { Ok(id) } else { Err(InvalidId) }
    }
}

impl Token {
    /// Returns a new token.
    ///
    /// # Errors
    /// Returns the error of `getrandom(2)`.
    pub fn generate() -> io::Result<Self> {
        random().map(Self)
    }

    /// Returns the token with these random bits.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the token's digits, for the store.
    pub(crate) fn digits(&self) -> String {
        HEXLOWER.encode(&self.0)
    }

    /// Returns the token with these digits.
    pub(crate) fn from_digits(digits: &str) -> Option<Self> {
        decoded(digits).map(Self)
    }
}

impl fmt::Debug for Token {
    /// Shows nothing of it: who knows the token can report a result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

fn decoded(digits: &str) -> Option<[u8; 16]> {
    HEXLOWER.decode(digits.as_bytes()).ok()?.try_into().ok()
}

fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0_u8; 16];
    let count = getrandom(&mut bytes, GetRandomFlags::empty())?;
    // Up to 256 bytes come at once (getrandom(2)).
    if count == bytes.len() { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::{InvalidId, TaskId, Token};

    #[test]
    fn id_is_read_as_it_is_shown() {
        let id = TaskId::from_random([0xff; 16]);
        assert_eq!(id.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn text_that_is_not_an_id_is_refused() {
        let id = "4f9c9c0e-8d0b-4c7e-9b52-0f3c1a6d2e11";
        assert!(id.parse::<TaskId>().is_ok());
        let wrong = [
            String::new(),
            id.to_uppercase(),
            id.replace('-', ""),
            format!("{id}-"),
            format!("{id} "),
            id.replace('4', "ä"),
            id.replacen("4f9c9c0e-8d0b", "4f9c9c0-e8d0b", 1),
        ];
        for text in wrong {
            assert_eq!(text.parse::<TaskId>(), Err(InvalidId), "{text}");
        }
    }

    #[test]
    fn token_is_read_back_and_never_shown() {
        let token = Token::from_random([0xa5; 16]);
        assert_eq!(Token::from_digits(&token.digits()), Some(token));
        assert_eq!(Token::from_digits("a5"), None);
        assert_eq!(format!("{token:?}"), "Token(…)");
    }
}
