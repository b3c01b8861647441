//! What comes from inside: the agent's requests, and what they want signed.

use pinfold_ssh::fields::{Fields, Malformed};

/// Message numbers (draft-ietf-sshm-ssh-agent, section 6.1).
pub(super) const FAILURE: u8 = 5;
pub(super) const SUCCESS: u8 = 6;
pub(super) const IDENTITIES_ANSWER: u8 = 12;
pub(super) const SIGN_REQUEST: u8 = 13;
pub(super) const SIGN_RESPONSE: u8 = 14;
pub(super) const EXTENSION: u8 = 27;
const REQUEST_IDENTITIES: u8 = 11;

/// The extension that ties a connection to a host (PROTOCOL.agent, section 1).
pub(super) const SESSION_BIND: &str = "session-bind@openssh.com";
/// The user authentication method whose signature names the host key (PROTOCOL, section 3.1).
const HOSTBOUND: &str = "publickey-hostbound-v00@openssh.com";

/// A message to the agent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// Which keys are there?
    Identities,
    /// Sign this.
    Sign { key: &'a [u8], data: &'a [u8], flags: u32 },
    /// This connection belongs to this session with this host.
    Bind { host_key: &'a [u8], session: &'a [u8], signature: &'a [u8], forwarding: bool },
    /// Anything else.
    Other,
}

impl<'a> Request<'a> {
    /// Reads a message without its length.
    pub(super) fn parse(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(message);
        let request = match fields.byte()? {
            REQUEST_IDENTITIES => Self::Identities,
            SIGN_REQUEST => {
                let (key, data) = (fields.string()?, fields.string()?);
                Self::Sign { key, data, flags: fields.number()? }
            }
            EXTENSION if fields.string()? == SESSION_BIND.as_bytes() => {
                let (host_key, session) = (fields.string()?, fields.string()?);
                let signature = fields.string()?;
                Self::Bind { host_key, session, signature, forwarding: fields.flag()? }
            }
            _ => return Ok(Self::Other),
        };
        fields.end()?;
        Ok(request)
    }
}

/// Data of which a signature may mean something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Signable<'a> {
    /// A signed document (PROTOCOL.sshsig, section 3) of this namespace.
    Document { namespace: &'a str },
    /// A login (RFC 4252, section 7).
    Login(Login<'a>),
}

/// A user's login to a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Login<'a> {
    pub(super) session: &'a [u8],
    pub(super) user: &'a str,
    pub(super) algorithm: &'a str,
    pub(super) key: &'a [u8],
    /// The host's key, if the method says it.
    pub(super) host_key: Option<&'a [u8]>,
}

impl<'a> Signable<'a> {
    /// Reads what is to be signed, which is one or the other: read as a login, a document would
    /// begin with a session identifier of more than a gigabyte.
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, Malformed> {
        match data.strip_prefix(b"SSHSIG") {
            Some(document) => Self::document(document),
            None => Self::login(data),
        }
    }

    fn document(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut fields = Fields::new(data);
        let (namespace, reserved) = (fields.text()?, fields.string()?);
        let size = match fields.text()? {
            "sha256" => 32,
            "sha512" => 64,
            _ => return Err(Malformed),
        };
        if !reserved.is_empty() || fields.string()?.len() != size {
            return Err(Malformed);
        }
        fields.end()?;
        Ok(Self::Document { namespace })
    }

    fn login(data: &'a [u8]) -> Result<Self, Malformed> {
        const USERAUTH_REQUEST: u8 = 50;
        let mut fields = Fields::new(data);
        let session = fields.string()?;
        if fields.byte()? != USERAUTH_REQUEST {
            return Err(Malformed);
        }
        let (user, service, method) = (fields.text()?, fields.text()?, fields.text()?);
        let hostbound = match method {
            HOSTBOUND => true,
            "publickey" => false,
            _ => return Err(Malformed),
        };
        if service != "ssh-connection" || !fields.flag()? {
            return Err(Malformed);
        }
        let (algorithm, key) = (fields.text()?, fields.string()?);
        let host_key = if hostbound { Some(fields.string()?) } else { None };
        fields.end()?;
        Ok(Self::Login(Login { session, user, algorithm, key, host_key }))
    }
}
