//! The ssh-agent door: signatures with a key that is never inside.
//!
//! It speaks the agent protocol (draft-ietf-sshm-ssh-agent, OpenSSH's PROTOCOL.agent) and signs two
//! things only: what `git commit -S` and `git tag -s` have signed, and logins to the hosts that the
//! settings name, towards the host keys that are pinned for them. Each signature is recorded before
//! it is made. Keys are parsed here and used by ring; the crates of this field bring a second
//! implementation of everything that ring has, and the one for RSA an open advisory
//! (RUSTSEC-2023-0071).

mod conversation;
mod known;
mod private;
mod public;
mod request;
mod serve;
mod signer;

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

pub use known::{host_keys, host_label};
pub use private::{SshKeyError, SshPrivateKey};
pub use public::{InvalidSshKey, SshPublicKey};
pub use signer::SshSigner;

use crate::gateway::Journal;

/// Bytes of one message at most, in either direction. OpenSSH's own agent reads as many
/// (`AGENT_MAX_LEN`, authfd.h).
const LONGEST: usize = 256 * 1024;

/// What the ssh-agent door offers, and for what.
pub struct SshConfig {
    /// The one key that is offered.
    pub key: SshPublicKey,
    /// Who signs with it.
    pub signer: SshSigner,
    /// The hosts that it may be used to log in to.
    pub hosts: Vec<SshHost>,
    /// Notified of every signature before it is made, and of every one that is refused.
    pub journal: Arc<dyn Journal>,
}

/// A host that may be logged in to.
#[derive(Clone, Debug)]
pub struct SshHost {
    /// Its name, as known_hosts(5) writes it: with a port, unless that is 22.
    pub label: String,
    /// The user to log in as.
    pub user: String,
    /// The host keys that are pinned for it.
    pub keys: Vec<SshPublicKey>,
    /// Whether only logins count whose signature names the host key.
    pub hostbound: bool,
}

/// The ssh-agent door of one session.
pub struct SshDoor {
    listener: UnixListener,
    config: Arc<SshConfig>,
}

impl SshDoor {
    /// Serves a socket that is listening.
    #[must_use]
    pub fn new(listener: UnixListener, config: SshConfig) -> Self {
        Self { listener, config: Arc::new(config) }
    }

    /// Returns the socket that something may come to.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Puts one message through everything that reads what comes from inside.
#[cfg(fuzzing)]
pub fn read_agent_message(message: &[u8]) -> bool {
    let Ok(request) = request::Request::parse(message) else { return false };
    match request {
        request::Request::Sign { data, .. } => request::Signable::parse(data).is_ok(),
        request::Request::Bind { host_key, session, signature, .. } => {
            SshPublicKey::from_blob(host_key).is_ok_and(|key| key.verifies(session, signature))
        }
        request::Request::Identities | request::Request::Other => true,
    }
}

#[cfg(test)]
mod tests;
