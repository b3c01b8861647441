//! Which key signs for the sandbox, and which hosts it may be used to log in to.

use std::fmt;

use crate::network::{Host, HostName, HostPattern, NetworkRule, Ports, Protocol};
use crate::origin::Valued;
use crate::path::HostPath;

/// What the settings say about SSH.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshSettings {
    /// The key; without one, and without an identity, nothing is signed.
    pub key: Option<Valued<SshKey>>,
    /// The hosts that may be logged in to.
    pub hosts: Vec<Valued<SshHostRule>>,
}

/// Where a key is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshKey {
    /// In this file, with the public half next to it (`.pub`).
    File(HostPath),
    /// In the user's own ssh-agent, where this is its public half, as in a `.pub` file.
    Agent(String),
}

impl fmt::Display for SshKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.escaped()),
            Self::Agent(public) => write!(f, "ssh-agent: {public}"),
        }
    }
}

/// A host that may be logged in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshHostRule {
    pub host: HostName,
    pub port: u16,
    /// The user to log in as.
    pub user: String,
    /// Its keys, as in a `.pub` file; those that the user's own ssh knows, if empty.
    pub known: Vec<String>,
    /// Whether only logins count whose signature names the host key.
    pub hostbound: bool,
}

impl SshHostRule {
    /// The port of SSH (RFC 4253).
    pub const PORT: u16 = 22;
    /// The user that git hosts have.
    pub const USER: &str = "git";

    /// Returns a rule for the host: a login is of no use without it.
    pub(crate) fn rule(&self) -> NetworkRule {
        let hosts = HostPattern::Exactly(Host::Name(self.host.clone()));
        let (ports, protocol) = (Ports::One(self.port), Some(Protocol::Tcp));
        let protocol = protocol.filter(|tcp| Protocol::of_port(self.port) != *tcp);
        NetworkRule { ports, protocol, ..NetworkRule::web(hosts) }
    }
}

impl fmt::Display for SshHostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}:{}", self.user, self.host, self.port)
    }
}
