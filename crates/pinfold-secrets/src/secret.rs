//! A value that must not leak.

use secrecy::{ExposeSecret as _, SecretString};
use zeroize::{Zeroize as _, Zeroizing};

/// Longest accepted value, in bytes. Tokens and keys are far below it.
pub(crate) const MAX_LEN: usize = 64 * 1024;

/// A secret value. It has no `Debug`, `Display` or `Clone`, and its memory is overwritten when
/// it is dropped.
pub struct Secret(SecretString);

/// Why a value is no secret. Never holds the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecret {
    /// Nothing, or only a newline.
    #[error("the value is empty")]
    Empty,
    /// A newline or another control character: such a value could end a header early.
    #[error("the value has a newline or another control character in it; give it on one line")]
    ControlCharacter,
    /// A space at either end, which is nearly always a slip of copying.
    #[error("the value begins or ends with a space; copy it without")]
    OuterSpace,
    /// Not text.
    #[error("the value is not UTF-8 text")]
    NotText,
    /// Longer than any real token.
    #[error("the value is longer than {MAX_LEN} bytes")]
    TooLong,
}

impl Secret {
    /// Takes a value as it was typed, read or printed: one trailing newline is cut off. A JSON object, such as
    /// keys of AWS's, is put on one line.
    ///
    /// # Errors
    /// Returns [`InvalidSecret`] when the value is empty, has control characters or outer spaces, is
    /// not text, or is too long. The input is overwritten in every case.
    pub fn from_bytes(value: Vec<u8>) -> Result<Self, InvalidSecret> {
        let value = Zeroizing::new(value);
        let value = on_one_line(&value).unwrap_or(value);
        let bytes = value.strip_suffix(b"\n").unwrap_or(&value);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidSecret::NotText)?;
        if text.is_empty() {
            return Err(InvalidSecret::Empty);
        }
        if text.len() > MAX_LEN {
            return Err(InvalidSecret::TooLong);
        }
        if text.chars().any(char::is_control) {
            return Err(InvalidSecret::ControlCharacter);
        }
        if text.trim() != text {
            return Err(InvalidSecret::OuterSpace);
        }
        // A `Box` made from the slice has the exact size, so nothing is left behind by shrinking.
        Ok(Self(SecretString::from(Box::<str>::from(text))))
    }

    /// Returns the value. The caller answers for where it goes.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

/// Returns a JSON object without line breaks, which have no meaning there: no string has one (RFC 8259, 7).
fn on_one_line(value: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let object = value.trim_ascii();
    let is_object = object.starts_with(b"{") && object.len() <= MAX_LEN;
    if !is_object || serde_json::from_slice::<serde::de::IgnoredAny>(object).is_err() {
        return None;
    }
    let blank = |byte: &u8| if byte.is_ascii_control() { b' ' } else { *byte };
    Some(Zeroizing::new(object.iter().map(blank).collect()))
}

impl TryFrom<String> for Secret {
    type Error = InvalidSecret;

    fn try_from(mut value: String) -> Result<Self, InvalidSecret> {
        let secret = Self::from_bytes(value.as_bytes().to_vec());
        value.zeroize();
        secret
    }
}
