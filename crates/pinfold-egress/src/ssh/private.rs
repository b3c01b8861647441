//! Private keys in OpenSSH's own format (PROTOCOL.key), as ring uses them.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::rsa::{KeyPairComponents, PublicKeyComponents};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use zeroize::Zeroizing;

use super::public::SshPublicKey;
use pinfold_ssh::fields::{Fields, Malformed, put_natural, put_string};

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";

/// Why a file's content is no usable private key. Says nothing of the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SshKeyError {
    /// Another format.
    #[error("it is not in OpenSSH's own format (`ssh-keygen -p -f FILE` rewrites it)")]
    Format,
    /// A passphrase protects it.
    #[error("a passphrase protects it; load it into your ssh-agent, and set agent = true")]
    Encrypted,
    /// A kind of key that cannot be used.
    #[error("only Ed25519, ECDSA on P-256 and P-384, and RSA of 2048 to 4096 bits can be used")]
    Unsupported,
    /// Damaged.
    #[error("it is damaged")]
    Damaged,
}

impl From<Malformed> for SshKeyError {
    fn from(_: Malformed) -> Self {
        Self::Damaged
    }
}

/// A private key. Never shown, not even for debugging.
pub struct SshPrivateKey {
    public: SshPublicKey,
    pair: Pair,
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(EcdsaKeyPair),
    Rsa(Box<RsaKeyPair>),
}

impl SshPrivateKey {
    /// Reads the content of a key file.
    ///
    /// # Errors
    /// Returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, SshKeyError> {
        let body = text
            .trim()
            .strip_prefix(BEGIN)
            .and_then(|rest| rest.strip_suffix(END))
            .ok_or(SshKeyError::Format)?;
        let mut joined = Zeroizing::new(String::with_capacity(body.len()));
        joined.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
        let bytes = STANDARD.decode(joined.as_bytes()).map_err(|_| SshKeyError::Damaged)?;
        let bytes = Zeroizing::new(bytes);
        let mut fields = Fields::new(bytes.strip_prefix(MAGIC).ok_or(SshKeyError::Format)?);
        let (cipher, kdf, _options) = (fields.text()?, fields.text()?, fields.string()?);
        if (cipher, kdf) != ("none", "none") {
            return Err(SshKeyError::Encrypted);
        }
        if fields.number()? != 1 {
            return Err(SshKeyError::Unsupported);
        }
        let public = SshPublicKey::from_blob(fields.string()?)?;
        let mut private = Fields::new(fields.string()?);
        fields.end()?;
        if private.number()? != private.number()? {
            return Err(SshKeyError::Damaged);
        }
        let pair = match private.text()? {
            "ssh-ed25519" => ed25519(&mut private)?,
            "ecdsa-sha2-nistp256" => ecdsa(&mut private, &ECDSA_P256_SHA256_FIXED_SIGNING, 32)?,
            "ecdsa-sha2-nistp384" => ecdsa(&mut private, &ECDSA_P384_SHA384_FIXED_SIGNING, 48)?,
            "ssh-rsa" => rsa(&mut private)?,
            _ => return Err(SshKeyError::Unsupported),
        };
        let key = Self { public, pair };
        // The two halves of a file may disagree; the public one is what was looked at before.
        let algorithm = match key.pair {
            Pair::Rsa(_) => "rsa-sha2-512",
            Pair::Ed25519(_) | Pair::Ecdsa(_) => key.public.kind(),
        };
        let proof = key.sign(algorithm, MAGIC).map_err(|_| SshKeyError::Damaged)?;
        if !key.public.verifies(MAGIC, &proof) {
            return Err(SshKeyError::Damaged);
        }
        Ok(key)
    }

    /// Returns its public half.
    #[must_use]
    pub fn public(&self) -> &SshPublicKey {
        &self.public
    }

    /// Signs, by an algorithm that fits the key. The result is as SSH sends it.
    pub(super) fn sign(&self, algorithm: &str, data: &[u8]) -> io::Result<Vec<u8>> {
        let failed = |_| io::Error::other("the signature could not be made");
        let random = SystemRandom::new();
        let bytes = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(data).as_ref().to_vec(),
            Pair::Ecdsa(pair) => {
                let signature = pair.sign(&random, data).map_err(failed)?;
                let (r, s) = signature.as_ref().split_at(signature.as_ref().len() / 2);
                let mut numbers = Vec::new();
                put_natural(&mut numbers, r);
                put_natural(&mut numbers, s);
                numbers
            }
            Pair::Rsa(pair) => {
                let encoding: &dyn ring::signature::RsaEncoding = match algorithm {
                    "rsa-sha2-256" => &RSA_PKCS1_SHA256,
                    _ => &RSA_PKCS1_SHA512,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &random, data, &mut signature).map_err(failed)?;
                signature
            }
        };
        let mut out = Vec::new();
        put_string(&mut out, algorithm.as_bytes());
        put_string(&mut out, &bytes);
        Ok(out)
    }
}

fn ed25519(private: &mut Fields<'_>) -> Result<Pair, SshKeyError> {
    let (public, both) = (private.string()?, private.string()?);
    let seed = both.strip_suffix(public).ok_or(SshKeyError::Damaged)?;
    let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public);
    pair.map(Pair::Ed25519).map_err(|_| SshKeyError::Damaged)
}

fn ecdsa(
    private: &mut Fields<'_>,
    algorithm: &'static EcdsaSigningAlgorithm,
    size: usize,
) -> Result<Pair, SshKeyError> {
    let (_curve, point, number) = (private.string()?, private.string()?, private.natural()?);
    let mut scalar = Zeroizing::new(vec![0; size]);
    let start = size.checked_sub(number.len()).ok_or(SshKeyError::Damaged)?;
    scalar[start..].copy_from_slice(number);
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, point, &random);
    pair.map(Pair::Ecdsa).map_err(|_| SshKeyError::Damaged)
}

fn rsa(private: &mut Fields<'_>) -> Result<Pair, SshKeyError> {
    let mut number = || private.natural();
    let (n, e, d, inverse, p, q) =
        (number()?, number()?, number()?, number()?, number()?, number()?);
    let (exponent_p, exponent_q) = (remainder(d, p)?, remainder(d, q)?);
    let components = KeyPairComponents {
        public_key: PublicKeyComponents { n, e },
        d,
        p,
        q,
        dP: exponent_p.as_slice(),
        dQ: exponent_q.as_slice(),
        qInv: inverse,
    };
    let pair = RsaKeyPair::from_components(&components);
    pair.map(|pair| Pair::Rsa(Box::new(pair))).map_err(|_| SshKeyError::Unsupported)
}

/// Returns `number` modulo `prime - 1`, big-endian, bit by bit. OpenSSH's format leaves these two exponents
/// (RFC 8017, section 3.2) to the reader. Done once, where nobody can watch the time it takes.
fn remainder(number: &[u8], prime: &[u8]) -> Result<Zeroizing<Vec<u8>>, SshKeyError> {
    const LONGEST: usize = 8192 / 8;
    let odd = prime.last().is_some_and(|last| last % 2 == 1);
    if !odd || prime.len() > LONGEST || number.len() > LONGEST || prime == [1] {
        return Err(SshKeyError::Damaged);
    }
    let mut modulus = Zeroizing::new(vec![0]);
    modulus.extend_from_slice(prime);
    let last = modulus.len() - 1;
    modulus[last] -= 1;
    let mut rest = Zeroizing::new(vec![0_u8; modulus.len()]);
    for bit in number.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        let mut carry = bit;
        for byte in rest.iter_mut().rev() {
            let high = *byte >> 7;
            *byte = *byte << 1 | carry;
            carry = high;
        }
        if *rest >= *modulus {
            let mut borrow = false;
            for (byte, subtracted) in rest.iter_mut().zip(modulus.iter()).rev() {
                let (difference, first) = byte.overflowing_sub(*subtracted);
                let (difference, second) = difference.overflowing_sub(u8::from(borrow));
                (*byte, borrow) = (difference, first || second);
            }
        }
    }
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    Ok(Zeroizing::new(rest[zeros..].to_vec()))
}
