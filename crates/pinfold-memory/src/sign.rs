//! Signatures of entries, by the key of an identity.
//!
//! The key is in the identity's `moltnet.json`, and stays outside of every sandbox. What is signed is the content address, so
//! a signature says who wrote title, text, tags and type. It says nothing about importance, times and diary. The bytes are
//! those that MoltNet's server has agents sign: an address and a nonce.

use std::fmt;

use pinfold_content::{Cid, Uuid, Value, read};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::error::StoreError;

/// What MoltNet's signatures begin with, so that they are ones of nothing else.
const DOMAIN: &[u8] = b"moltnet:v1";
/// What came before the address in signatures without a nonce, which diaries of the second format have.
const OLD_DOMAIN: &str = "pinfold:diary-entry:v1\n";
/// How a public key begins.
const ED: &str = "ed25519:";

/// Who signs entries.
pub struct Signer {
    pair: Ed25519KeyPair,
    identity: String,
}

/// The error for an identity whose key cannot sign.
#[derive(Debug, thiserror::Error)]
#[error("moltnet.json: {0}")]
pub struct SignerError(&'static str);

/// Who signed an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The identity's id, as it says itself.
    pub identity: String,
    /// The public key, as `ed25519:BASE64`.
    pub public_key: String,
    /// The signature, in base64.
    pub signature: String,
    /// What was signed with the address, so that no two signatures are the same.
    pub nonce: Option<String>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl Signer {
    /// Returns the signer of an identity by the bytes of its `moltnet.json`; none if there is no key in it.
    ///
    /// # Errors
    /// Returns an error for a key that is not valid, or one whose public half is another's.
    pub fn of_identity(file: &[u8]) -> Result<Option<Self>, SignerError> {
        let text = std::str::from_utf8(file).map_err(|_| SignerError("it is not text"))?;
        let value = read(text).map_err(|_| SignerError("it is not JSON"))?;
        let keys = value.get("keys");
        let Some(private) = keys.and_then(|keys| keys.text_of("private_key")) else {
            return Ok(None);
        };
        let seed = decode(&private).ok_or(SignerError("keys.private_key is not in base64"))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
            .map_err(|_| SignerError("keys.private_key is not an Ed25519 seed"))?;
        let identity = value.text_of("identity_id").unwrap_or_default().into_owned();
        let signer = Self { pair, identity };
        let public = keys.and_then(|keys| keys.text_of("public_key"));
        if public.is_some_and(|public| public != signer.public_key()) {
            return Err(SignerError("keys.public_key is not the half of keys.private_key"));
        }
        Ok(Some(signer))
    }

    /// Returns the public key, as `ed25519:BASE64`.
    #[must_use]
    pub fn public_key(&self) -> String {
        format!("{ED}{}", data_encoding::BASE64.encode(self.pair.public_key().as_ref()))
    }

    /// Returns the identity's id, as its file says.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Signs an entry by its address, with a nonce that nobody has used before.
    pub(crate) fn sign(&self, cid: &Cid, nonce: Uuid) -> Signature {
        let nonce = nonce.to_string();
        let signature = self.pair.sign(&signing_bytes(cid.as_str(), &nonce));
        Signature {
            identity: self.identity.clone(),
            public_key: self.public_key(),
            signature: data_encoding::BASE64.encode(signature.as_ref()),
            nonce: Some(nonce),
        }
    }
}

impl Signature {
    /// Checks that it is one of this address.
    ///
    /// # Errors
    /// Returns an error for a signature of something else, or by another key.
    pub fn check(&self, cid: &Cid) -> Result<(), StoreError> {
        let signed = match &self.nonce {
            Some(nonce) => signing_bytes(cid.as_str(), nonce),
            None => format!("{OLD_DOMAIN}{}", cid.as_str()).into_bytes(),
        };
        let is_valid = || {
            let public = decode(self.public_key.strip_prefix(ED)?)?;
            let signature = decode(&self.signature)?;
            UnparsedPublicKey::new(&ED25519, public).verify(&signed, &signature).ok()
        };
        let reason = "it is not one of the entry by its creator";
        is_valid().ok_or_else(|| StoreError::invalid("signature", reason))
    }

    /// Returns the fingerprint of the key: the first 16 digits of its SHA-256, in groups of four.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let bytes = self.public_key.strip_prefix(ED).and_then(decode).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        let digits = data_encoding::HEXUPPER.encode(&digest.as_ref()[..8]);
        let groups: Vec<&str> = (0..4).map(|group| &digits[4 * group..4 * group + 4]).collect();
        groups.join("-")
    }

    /// Returns who made the entry, as MoltNet has it.
    pub(crate) fn creator(&self) -> Value {
        Value::object([
            ("kind", "agent".into()),
            ("identityId", self.identity.as_str().into()),
            ("fingerprint", self.fingerprint().into()),
            ("publicKey", self.public_key.as_str().into()),
        ])
    }
}

/// Returns the bytes that MoltNet's agents sign for a message and a nonce: the domain, then the digest of the message and the
/// nonce, each behind its length.
#[must_use]
pub fn signing_bytes(message: &str, nonce: &str) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, message.as_bytes());
    let mut bytes = DOMAIN.to_vec();
    for part in [digest.as_ref(), nonce.as_bytes()] {
        // Digests and nonces are short.
        bytes.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(part);
    }
    bytes
}

fn decode(text: &str) -> Option<Vec<u8>> {
    data_encoding::BASE64.decode(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::Signer;
    use crate::NewEntry;

    /// The vector of MoltNet's facts: a seed of 32 times 7.
    const SEED: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    const PUBLIC: &str = "ed25519:6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=";

    fn file(private: &str, public: &str) -> Vec<u8> {
        format!(
            r#"{{"identity_id":"i","keys":{{"private_key":"{private}","public_key":"{public}"}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn signature_is_one_of_this_address_by_this_key() {
        let signer = Signer::of_identity(&file(SEED, PUBLIC)).unwrap().unwrap();
        let (entry, other) = (NewEntry::new("a").address(), NewEntry::new("b").address());
        let nonce = "3f1c5a0e-5d0b-4c7e-9b52-0f3c1a6d2e11".parse().unwrap();
        let signature = signer.sign(&entry, nonce);
        assert_eq!(signature.public_key, PUBLIC);
        assert_eq!(signature.fingerprint(), "FE81-2C12-F3AB-4CE6");
        signature.check(&entry).unwrap();
        signature.check(&other).unwrap_err();
        for change in ["ed25519:AAAA", "6kpsY", "ed25519:", "ed25519:%%%"] {
            let forged = super::Signature { public_key: change.to_owned(), ..signature.clone() };
            forged.check(&entry).unwrap_err();
            assert_eq!(forged.fingerprint().len(), 19);
        }
        let forged = super::Signature { signature: String::new(), ..signature.clone() };
        forged.check(&entry).unwrap_err();
        for nonce in [None, Some("3f1c5a0e-5d0b-4c7e-9b52-0f3c1a6d2e12".to_owned())] {
            super::Signature { nonce, ..signature.clone() }.check(&entry).unwrap_err();
        }
    }

    #[test]
    fn invalid_key_is_an_error_and_a_missing_one_signs_nothing() {
        assert!(Signer::of_identity(b"{}").unwrap().is_none());
        for wrong in [
            b"\xff".to_vec(),
            b"not JSON".to_vec(),
            file("short", PUBLIC),
            file("AAAA", PUBLIC),
            file(SEED, "ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
        ] {
            let error = Signer::of_identity(&wrong).unwrap_err().to_string();
            assert!(!error.contains(SEED), "{error}");
        }
    }
}
