//! The key by which a server is known to a client.

use data_encoding::BASE64;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};

use crate::SshError;
use crate::message::Message;

/// The only algorithm of host keys.
pub(crate) const ALGORITHM: &str = "ssh-ed25519";

/// The key of a server.
pub struct HostKey(Ed25519KeyPair);

impl HostKey {
    /// Makes a key, as a PKCS #8 document.
    ///
    /// # Errors
    /// Returns an error if the system has no random bytes.
    pub fn generate() -> Result<Vec<u8>, SshError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        Ok(document.map_err(|_| SshError::Crypto("no random bytes"))?.as_ref().to_vec())
    }

    /// Reads a key.
    ///
    /// # Errors
    /// Returns an error for a document that is not one of [`Self::generate`].
    pub fn read(document: &[u8]) -> Result<Self, SshError> {
        let key = Ed25519KeyPair::from_pkcs8(document);
        key.map(Self).map_err(|_| SshError::Crypto("the host key cannot be read"))
    }

    /// Returns the public half, as `known_hosts` has it behind a host's name.
    #[must_use]
    pub fn known_as(&self) -> String {
        format!("{ALGORITHM} {}", BASE64.encode(&self.public()))
    }

    pub(crate) fn public(&self) -> Vec<u8> {
        Message::default().string(ALGORITHM.as_bytes()).string(self.0.public_key().as_ref()).0
    }

    pub(crate) fn sign(&self, hash: &[u8]) -> Vec<u8> {
        let signature = self.0.sign(hash);
        Message::default().string(ALGORITHM.as_bytes()).string(signature.as_ref()).0
    }
}
