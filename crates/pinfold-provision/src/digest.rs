//! The two digests of this crate: what a tarball must be, and what a layer is called.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use ring::digest;

/// The SHA-512 of a tarball, in the form of the registry's `integrity` field.
///
/// It alone decides whether a download is accepted; the registry's name is not trusted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Integrity([u8; 64]);

/// Why an `integrity` value was refused.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an integrity value: expected `sha512-` and 64 bytes in base64")]
pub struct IntegrityError(String);

impl Integrity {
    /// Reads `sha512-<base64>`. Weaker algorithms and lists of several are refused.
    ///
    /// # Errors
    /// Returns an error for anything but one SHA-512 value.
    pub fn parse(text: &str) -> Result<Self, IntegrityError> {
        text.strip_prefix("sha512-")
            .and_then(|encoded| STANDARD.decode(encoded).ok())
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or_else(|| IntegrityError(crate::names::quoted(text)))
    }

    /// Returns the integrity of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_digest(&digest::digest(&digest::SHA512, bytes))
    }

    /// Returns the integrity of a file, read once from start to end.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened or read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut context = digest::Context::new(&digest::SHA512);
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Self::from_digest(&context.finish())),
                read => context.update(&buffer[..read]),
            }
        }
    }

    /// Returns the 64 bytes, for a downloader that hashes while it streams.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }

    /// Returns the name of the tarball in a staging directory: equal tarballs are fetched once.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.tgz", HEXLOWER.encode(&self.0[..16]))
    }

    fn from_digest(digest: &digest::Digest) -> Self {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha512-{}", STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Integrity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a layer: the SHA-256 of its recipe's canonical content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LayerId([u8; 32]);

impl LayerId {
    pub(crate) fn of(canonical: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, canonical).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for LayerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
