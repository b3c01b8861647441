//! The exchange of keys: algorithms (RFC 4253, section 7), and curve25519-sha256 (RFC 8731).

use ring::agreement::{EphemeralPrivateKey, UnparsedPublicKey, X25519, agree_ephemeral};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::SshError;
use crate::fields::Fields;
use crate::host_key::{ALGORITHM, HostKey};
use crate::message::Message;
use crate::packet::Key;

pub(crate) const KEXINIT: u8 = 20;
pub(crate) const NEWKEYS: u8 = 21;
pub(crate) const ECDH_INIT: u8 = 30;
const ECDH_REPLY: u8 = 31;

const EXCHANGES: [&str; 2] = ["curve25519-sha256", "curve25519-sha256@libssh.org"];
const CIPHER: &str = "chacha20-poly1305@openssh.com";
/// Listed as a name of an exchange, these say that nothing is ignored in the first exchange, and that packets are counted
/// again from zero after each (OpenSSH's PROTOCOL, 1.10).
const STRICT_SERVER: &str = "kex-strict-s-v00@openssh.com";
const STRICT_CLIENT: &str = "kex-strict-c-v00@openssh.com";

/// What a client has said of its algorithms.
pub(crate) struct Offer {
    pub(crate) is_strict: bool,
    /// Whether a packet follows that was guessed wrongly.
    pub(crate) skips_one: bool,
}

/// Returns this server's list of algorithms, as a message.
///
/// # Errors
/// Returns an error if the system has no random bytes.
pub(crate) fn own_offer() -> Result<Vec<u8>, SshError> {
    let mut cookie = [0; 16];
    SystemRandom::new().fill(&mut cookie).map_err(|_| SshError::Crypto("no random bytes"))?;
    let exchanges = [&EXCHANGES[..], &[STRICT_SERVER]].concat().join(",");
    let lists = [
        &exchanges,
        ALGORITHM,
        CIPHER,
        CIPHER,
        "hmac-sha2-256",
        "hmac-sha2-256",
        "none",
        "none",
        "",
        "",
    ];
    let message = Message::of(KEXINIT).raw(&cookie);
    let message = lists.iter().fold(message, |message, list| message.string(list.as_bytes()));
    Ok(message.flag(false).number(0).0)
}

/// Reads a client's list of algorithms.
///
/// # Errors
/// Returns an error if one is malformed, or has none of this server's.
pub(crate) fn read_offer(message: &[u8]) -> Result<Offer, SshError> {
    let mut fields = Fields::new(message);
    fields.take(17)?;
    let exchanges = fields.names()?;
    let host_keys = fields.names()?;
    let ciphers = [fields.names()?, fields.names()?];
    // A cipher that authenticates needs no code of its own.
    let (_codes, compressions) =
        ([fields.names()?, fields.names()?], [fields.names()?, fields.names()?]);
    let _languages = [fields.names()?, fields.names()?];
    let follows = fields.flag()?;
    let missing =
        |is_missing: bool, what| if is_missing { Err(SshError::NoAlgorithm(what)) } else { Ok(()) };
    let chosen = exchanges.iter().find(|name| EXCHANGES.contains(name));
    missing(chosen.is_none(), "the exchange of keys")?;
    missing(!host_keys.contains(&ALGORITHM), "host keys")?;
    missing(ciphers.iter().any(|names| !names.contains(&CIPHER)), "encryption")?;
    missing(compressions.iter().any(|names| !names.contains(&"none")), "no compression")?;
    let is_right = exchanges.first() == chosen && host_keys.first() == Some(&ALGORITHM);
    Ok(Offer { is_strict: exchanges.contains(&STRICT_CLIENT), skips_one: follows && !is_right })
}

/// What both sides have said before the exchange.
pub(crate) struct Said<'a> {
    pub(crate) client_version: &'a [u8],
    pub(crate) server_version: &'a [u8],
    pub(crate) client_offer: &'a [u8],
    pub(crate) server_offer: &'a [u8],
}

/// What an exchange comes to.
pub(crate) struct Exchanged {
    /// The answer to the client.
    pub(crate) reply: Vec<u8>,
    /// The hash, which is the session's id if it is the first.
    pub(crate) hash: Vec<u8>,
    secret: Vec<u8>,
}

/// Answers the client's half of a key.
///
/// # Errors
/// Returns an error for a message that is malformed, or a key that is not one.
pub(crate) fn exchange(
    message: &[u8],
    said: &Said<'_>,
    host_key: &HostKey,
) -> Result<Exchanged, SshError> {
    let mut fields = Fields::new(message);
    if fields.byte()? != ECDH_INIT {
        return Err(SshError::Malformed("something else within an exchange of keys"));
    }
    let theirs = fields.string()?;
    let crypto = |_| SshError::Crypto("no key can be made");
    let own = EphemeralPrivateKey::generate(&X25519, &SystemRandom::new()).map_err(crypto)?;
    let public = own.compute_public_key().map_err(crypto)?;
    let peer = UnparsedPublicKey::new(&X25519, theirs);
    let secret = agree_ephemeral(own, &peer, |secret| Message::default().natural(secret).0);
    let secret = secret.map_err(|_| SshError::Malformed("a key that is not one"))?;
    let known = host_key.public();
    let hashed = Message::default()
        .string(said.client_version)
        .string(said.server_version)
        .string(said.client_offer)
        .string(said.server_offer)
        .string(&known)
        .string(theirs)
        .string(public.as_ref())
        .raw(&secret);
    let hash = digest(&SHA256, &hashed.0).as_ref().to_vec();
    let reply = Message::of(ECDH_REPLY)
        .string(&known)
        .string(public.as_ref())
        .string(&host_key.sign(&hash));
    Ok(Exchanged { reply: reply.0, hash, secret })
}

impl Exchanged {
    /// Returns the key for what the client sends, and the one for what it gets (RFC 4253, 7.2).
    pub(crate) fn keys(&self, session: &[u8]) -> (Key, Key) {
        (self.key(b'C', session), self.key(b'D', session))
    }

    fn key(&self, letter: u8, session: &[u8]) -> Key {
        let begin = [self.secret.as_slice(), &self.hash].concat();
        let first = digest(&SHA256, &[&begin[..], &[letter], session].concat());
        let second = digest(&SHA256, &[&begin[..], first.as_ref()].concat());
        let mut key = [0; 64];
        key[..32].copy_from_slice(first.as_ref());
        key[32..].copy_from_slice(second.as_ref());
        key
    }
}
