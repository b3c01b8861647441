//! What a file must be, as a hash (Subresource Integrity, W3C).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{self, Context, Digest};

/// A strong hash of a whole file, in the notation of npm's lock files: `sha512-<base64>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integrity {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

/// In the order of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Algorithm {
    Sha256,
    Sha512,
}

impl Algorithm {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        }
    }

    fn ring(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }
}

/// A text that holds no usable hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a valid integrity: it needs sha512-… or sha256-… in base64 (sha1 is not accepted)"
)]
pub struct InvalidIntegrity {
    text: String,
}

impl Integrity {
    /// Reads one or more hashes separated by spaces and keeps the strongest.
    ///
    /// # Errors
    /// Returns an error if none of them is a sha256 or sha512 of the right length, or one of these is damaged.
    pub fn parse(text: &str) -> Result<Self, InvalidIntegrity> {
        let invalid = || InvalidIntegrity { text: text.to_owned() };
        let mut strongest: Option<Self> = None;
        for item in text.split_ascii_whitespace() {
            // What follows a question mark are options, none of which is defined.
            let item = item.split('?').next().unwrap_or(item);
            let (name, encoded) = item.split_once('-').ok_or_else(invalid)?;
            let algorithm = match name {
                "sha512" => Algorithm::Sha512,
                "sha256" => Algorithm::Sha256,
                _ => continue,
            };
            let digest = STANDARD.decode(encoded).map_err(|_| invalid())?;
            if digest.len() != algorithm.ring().output_len() {
                return Err(invalid());
            }
            if strongest.as_ref().is_none_or(|held| held.algorithm < algorithm) {
                strongest = Some(Self { algorithm, digest });
            }
        }
        strongest.ok_or_else(invalid)
    }

    /// Makes the integrity of a SHA-256.
    #[must_use]
    pub fn sha256(digest: [u8; 32]) -> Self {
        Self { algorithm: Algorithm::Sha256, digest: digest.into() }
    }

    pub(super) fn start(&self) -> Context {
        Context::new(self.algorithm.ring())
    }

    /// Compares; the error is what the content really is.
    pub(super) fn verify(&self, actual: &Digest) -> Result<(), Self> {
        if actual.as_ref() == self.digest {
            return Ok(());
        }
        Err(Self { algorithm: self.algorithm, digest: actual.as_ref().to_vec() })
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.algorithm.name(), STANDARD.encode(&self.digest))
    }
}
