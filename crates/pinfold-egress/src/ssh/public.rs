//! Public keys, and the signatures that they verify.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA512, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};

use pinfold_ssh::fields::{Fields, Malformed};

/// A public key as SSH sends it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SshPublicKey {
    blob: Vec<u8>,
}

/// A text that is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a public key as in a .pub file: its type, then its data in base64")]
pub struct InvalidSshKey;

impl SshPublicKey {
    /// Reads a key from its data.
    pub(super) fn from_blob(blob: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(blob);
        let name = fields.text()?;
        let plain = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(plain) {
            return Err(Malformed);
        }
        if fields.rest().is_empty() {
            return Err(Malformed);
        }
        Ok(Self { blob: blob.to_vec() })
    }

    /// Returns the key's data.
    #[must_use]
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// Returns the key's type, such as `ssh-ed25519`.
    #[must_use]
    pub fn kind(&self) -> &str {
        Fields::new(&self.blob).text().unwrap_or_default()
    }

    /// Returns the fingerprint, as `ssh-keygen -l` shows it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let digest = ring::digest::digest(&ring::digest::SHA256, &self.blob);
        format!("SHA256:{}", STANDARD_NO_PAD.encode(digest))
    }

    /// Returns whether the signature is this key's over the data. RSA counts with SHA-2 alone (RFC
    /// 8332); keys on other curves, security keys and certificates verify nothing.
    pub(super) fn verifies(&self, data: &[u8], signature: &[u8]) -> bool {
        self.try_verify(data, signature).is_ok()
    }

    fn try_verify(&self, data: &[u8], signature: &[u8]) -> Result<(), Malformed> {
        let mut key = Fields::new(&self.blob);
        let kind = key.text()?;
        let mut signature = Fields::new(signature);
        let algorithm = signature.text()?;
        let bytes = signature.string()?;
        signature.end()?;
        let check = |algorithm: &'static dyn VerificationAlgorithm, key: &[u8], bytes: &[u8]| {
            UnparsedPublicKey::new(algorithm, key).verify(data, bytes).map_err(|_| Malformed)
        };
        match (kind, algorithm) {
            ("ssh-ed25519", "ssh-ed25519") => {
                let point = key.string()?;
                key.end()?;
                check(&ED25519, point, bytes)
            }
            ("ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256") => {
                let point = point(key, "nistp256")?;
                check(&ECDSA_P256_SHA256_FIXED, point, &fixed(bytes, 32)?)
            }
            ("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384") => {
                let point = point(key, "nistp384")?;
                check(&ECDSA_P384_SHA384_FIXED, point, &fixed(bytes, 48)?)
            }
            ("ssh-rsa", "rsa-sha2-256" | "rsa-sha2-512") => {
                let (e, n) = (key.natural()?, key.natural()?);
                key.end()?;
                let parameters = match algorithm {
                    "rsa-sha2-256" => &RSA_PKCS1_2048_8192_SHA256,
                    _ => &RSA_PKCS1_2048_8192_SHA512,
                };
                let key = RsaPublicKeyComponents { n, e };
                key.verify(parameters, data, bytes).map_err(|_| Malformed)
            }
            _ => Err(Malformed),
        }
    }
}

/// Returns the point of an ECDSA key (RFC 5656, section 3.1).
fn point<'a>(mut key: Fields<'a>, curve: &str) -> Result<&'a [u8], Malformed> {
    if key.text()? != curve {
        return Err(Malformed);
    }
    let point = key.string()?;
    key.end()?;
    Ok(point)
}

/// Returns an ECDSA signature, two numbers (RFC 5656, section 3.1.2), as ring takes it.
fn fixed(signature: &[u8], size: usize) -> Result<Vec<u8>, Malformed> {
    let mut numbers = Fields::new(signature);
    let mut out = vec![0; 2 * size];
    for half in out.chunks_exact_mut(size) {
        let number = numbers.natural()?;
        let start = size.checked_sub(number.len()).ok_or(Malformed)?;
        half[start..].copy_from_slice(number);
    }
    numbers.end()?;
    Ok(out)
}

impl FromStr for SshPublicKey {
    type Err = InvalidSshKey;

    fn from_str(line: &str) -> Result<Self, InvalidSshKey> {
        let mut words = line.split_ascii_whitespace();
        let (kind, data) = words.next().zip(words.next()).ok_or(InvalidSshKey)?;
        let blob = STANDARD.decode(data).map_err(|_| InvalidSshKey)?;
        let key = Self::from_blob(&blob).map_err(|Malformed| InvalidSshKey)?;
        if key.kind() != kind {
            return Err(InvalidSshKey);
        }
        Ok(key)
    }
}

impl fmt::Display for SshPublicKey {
    /// Writes the key as in a `.pub` file, without a comment.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), STANDARD.encode(&self.blob))
    }
}

impl fmt::Debug for SshPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind(), self.fingerprint())
    }
}
