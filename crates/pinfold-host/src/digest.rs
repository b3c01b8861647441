//! SHA-256 digests (FIPS 180-4) and how they are shown.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

/// Shows bytes as lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The hash of a content, shown as 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHash([u8; SHA256_OUTPUT_LEN]);

/// An error for a text that is not a hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the 64 hexadecimal digits that `pinfold trust --hash` prints")]
pub struct InvalidHash;

impl ContentHash {
    /// Returns the SHA-256 digest of what a context was given.
    #[must_use]
    pub fn of(context: Context) -> Self {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(context.finish().as_ref());
        Self(hash)
    }
}

impl From<[u8; SHA256_OUTPUT_LEN]> for ContentHash {
    fn from(digest: [u8; SHA256_OUTPUT_LEN]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl FromStr for ContentHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let text = text.strip_prefix("sha256:").unwrap_or(text);
        if text.len() != 2 * SHA256_OUTPUT_LEN || !text.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            return Err(InvalidHash);
        }
        let mut hash = [0; SHA256_OUTPUT_LEN];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| InvalidHash)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidHash)?;
        }
        Ok(Self(hash))
    }
}

/// Returns the SHA-256 digest of a text as hexadecimal digits: a name for a file about something with any
/// name.
#[must_use]
pub fn name_of(text: &[u8]) -> String {
    Hex(ring::digest::digest(&SHA256, text).as_ref()).to_string()
}

/// Returns the digest of a file's content.
///
/// # Errors
/// Returns the error of reading.
pub fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("sha256:{}", Hex(context.finish().as_ref()))),
            count => context.update(&buffer[..count]),
        }
    }
}

/// Returns whether a text is a SHA-256 digest as OCI writes it: `sha256:` and 64 digits in lower case.
#[must_use]
pub fn is_digest(text: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let digits = text.strip_prefix("sha256:");
    digits.is_some_and(|digits| digits.len() == 64 && digits.bytes().all(is_lower))
}

#[cfg(test)]
mod tests {
    use super::{Hex, is_digest};

    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(Hex(&[0, 0x0f, 0xa0]).to_string(), "000fa0");
    }

    #[test]
    fn digest_has_an_algorithm_and_digits_in_lower_case() {
        let digits = "0f".repeat(32);
        assert!(is_digest(&format!("sha256:{digits}")));
        for wrong in [
            digits.clone(),
            format!("sha256:{}", &digits[1..]),
            format!("sha256:{}", digits.to_uppercase()),
        ] {
            assert!(!is_digest(&wrong), "{wrong}");
        }
    }
}
