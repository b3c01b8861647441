//! One connection to the door: what was bound on it, and what may be signed on it.

use super::public::SshPublicKey;
use super::request::{FAILURE, IDENTITIES_ANSWER, Login, Request, SUCCESS, Signable};
use super::{SshConfig, SshHost};
use pinfold_ssh::fields::{Malformed, put_string};

/// What is to be done about a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send this.
    Answer(Vec<u8>),
    /// Record this, sign it, and send the signature.
    Sign(Permit),
    /// Record and show this, and send a failure.
    Refuse(Refusal),
}

/// A signature that may be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Permit {
    pub(super) purpose: Purpose,
    pub(super) data: Vec<u8>,
    pub(super) flags: u32,
    /// The signature's algorithm.
    pub(super) algorithm: String,
}

/// What a signature is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A commit or a tag.
    Git,
    /// A login to a host, by a session that is bound to this connection.
    Login { label: String, user: String, host_key: SshPublicKey, bind: Vec<u8> },
}

/// A signature that may not be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) what: &'static str,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
}

impl Refusal {
    fn of(what: &'static str, reason: impl Into<String>) -> Self {
        Self { what, reason: reason.into(), hint: None }
    }
}

/// What a connection is tied to.
#[derive(Debug)]
enum Bound {
    Nothing,
    To {
        host_key: SshPublicKey,
        session: Vec<u8>,
        /// The message that said so.
        message: Vec<u8>,
    },
    /// To more than one session, or handed on to another machine.
    Spoilt,
}

const SIGNATURE: &str = "signature";
const LOGIN: &str = "ssh-login";

/// One connection.
pub(super) struct Conversation<'a> {
    config: &'a SshConfig,
    bound: Bound,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(config: &'a SshConfig) -> Self {
        Self { config, bound: Bound::Nothing }
    }

    /// Decides on a message.
    pub(super) fn judge(&mut self, message: &[u8]) -> Verdict {
        let failure = Verdict::Answer(vec![FAILURE]);
        match Request::parse(message) {
            Err(Malformed) | Ok(Request::Other) => failure,
            Ok(Request::Identities) => Verdict::Answer(self.identities()),
            Ok(Request::Bind { host_key, session, signature, forwarding }) => {
                match SshPublicKey::from_blob(host_key) {
                    Ok(key) if key.verifies(session, signature) => {
                        self.bind(key, session, forwarding, message)
                    }
                    // Nothing is bound, so no login follows.
                    Ok(_) | Err(Malformed) => failure,
                }
            }
            Ok(Request::Sign { key, data, flags }) => match self.permit(key, data, flags) {
                Ok(permit) => Verdict::Sign(permit),
                Err(refusal) => Verdict::Refuse(refusal),
            },
        }
    }

    fn identities(&self) -> Vec<u8> {
        let mut answer = vec![IDENTITIES_ANSWER, 0, 0, 0, 1];
        put_string(&mut answer, self.config.key.blob());
        put_string(&mut answer, b"pinfold");
        answer
    }

    /// Binds a connection to one session with one host. A second one, or one that is handed on,
    /// would be another machine's: nothing more is signed for it.
    fn bind(
        &mut self,
        host_key: SshPublicKey,
        session: &[u8],
        forwarding: bool,
        message: &[u8],
    ) -> Verdict {
        let same = match &self.bound {
            Bound::Nothing => true,
            Bound::To { host_key: bound, session: known, .. } => {
                *bound == host_key && known == session
            }
            Bound::Spoilt => false,
        };
        if forwarding || !same {
            self.bound = Bound::Spoilt;
            let reason = if forwarding {
                format!("the agent is not forwarded to {}", host_key.fingerprint())
            } else {
                "a connection to the agent serves one session with one host".to_owned()
            };
            return Verdict::Refuse(Refusal::of(SIGNATURE, reason));
        }
        self.bound = Bound::To { host_key, session: session.to_vec(), message: message.to_vec() };
        Verdict::Answer(vec![SUCCESS])
    }

    fn permit(&self, key: &[u8], data: &[u8], flags: u32) -> Result<Permit, Refusal> {
        if key != self.config.key.blob() {
            return Err(Refusal::of(SIGNATURE, "another key than the one that is offered"));
        }
        if matches!(self.bound, Bound::Spoilt) {
            let reason = "a connection to the agent that was forwarded or used twice signs nothing";
            return Err(Refusal::of(SIGNATURE, reason));
        }
        let algorithm = algorithm(self.config.key.kind(), flags)?;
        let purpose = match Signable::parse(data) {
            Ok(Signable::Document { namespace: "git" }) => Purpose::Git,
            Ok(Signable::Document { namespace }) => {
                let reason = format!(
                    "only commits and tags are signed (namespace git), not namespace {}",
                    shown(namespace)
                );
                return Err(Refusal::of(SIGNATURE, reason));
            }
            Ok(Signable::Login(login)) => self.login(&login, &algorithm)?,
            Err(Malformed) => {
                let reason = "only commits, tags and logins to named hosts are signed";
                return Err(Refusal::of(SIGNATURE, reason));
            }
        };
        Ok(Permit { purpose, data: data.to_vec(), flags, algorithm })
    }

    fn login(&self, login: &Login<'_>, algorithm: &str) -> Result<Purpose, Refusal> {
        let refuse = |reason: String| Err(Refusal::of(LOGIN, reason));
        let Bound::To { host_key, session, message } = &self.bound else {
            return refuse("a login whose host has not proved itself (session-bind)".to_owned());
        };
        if login.session != session || login.host_key.is_some_and(|key| key != host_key.blob()) {
            return refuse("a login to another host than the one that proved itself".to_owned());
        }
        if login.key != self.config.key.blob() || login.algorithm != algorithm {
            return refuse("a login with another key than the one that is offered".to_owned());
        }
        let pinned = || self.config.hosts.iter().filter(|host| host.keys.contains(host_key));
        let Some(first) = pinned().next() else {
            let key = host_key.fingerprint();
            return Err(Refusal {
                what: LOGIN,
                reason: format!("a login to a host with the key {key}, which is not pinned"),
                hint: Some("name the host under [ssh] hosts in config.toml".to_owned()),
            });
        };
        let Some(host) = pinned().find(|host| host.user == login.user) else {
            let (user, label, known) = (shown(login.user), &first.label, &first.user);
            return refuse(format!("a login to {label} as {user}; it is allowed as {known}"));
        };
        let unbound = |host: &&SshHost| host.user == login.user && !host.hostbound;
        let host = match login.host_key {
            Some(_) => host,
            None => pinned().find(unbound).ok_or_else(|| unbound_refusal(host))?,
        };
        Ok(Purpose::Login {
            label: host.label.clone(),
            user: host.user.clone(),
            host_key: host_key.clone(),
            bind: message.clone(),
        })
    }
}

fn unbound_refusal(host: &SshHost) -> Refusal {
    Refusal {
        what: LOGIN,
        reason: format!(
            "a login to {} whose signature does not name the host key (method publickey)",
            host.label
        ),
        hint: Some(
            "if the server knows no other, set hostbound = false for it in config.toml".to_owned(),
        ),
    }
}

/// Returns the algorithm that a key's type and a request's flags ask for (section 6.5 of the draft).
fn algorithm(kind: &str, flags: u32) -> Result<String, Refusal> {
    let name = match (kind, flags) {
        ("ssh-rsa", 2) => "rsa-sha2-256",
        ("ssh-rsa", 4) => "rsa-sha2-512",
        ("ssh-rsa", _) => {
            return Err(Refusal::of(SIGNATURE, "RSA signs with SHA-256 or SHA-512 alone"));
        }
        (kind, 0) => kind,
        _ => return Err(Refusal::of(SIGNATURE, "a signature with unknown flags")),
    };
    Ok(name.to_owned())
}

/// Returns a name of the sandbox's choosing, short and printable.
fn shown(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}
