//! Which secret goes to which hosts, and where in a request.

use std::fmt;
use std::str::FromStr;

use super::authority::Endpoint;
use super::pattern::HostPattern;
use super::rule::{NetworkRule, Ports, Protocol};
use crate::env::EnvName;

bitflags::bitflags! {
    /// Where in a request a placeholder is replaced by the secret.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Spots: u8 {
        /// In any header.
        const HEADER = 1;
        /// As user or password of `Authorization: Basic` (RFC 7617).
        const BASIC = 2;
        /// In the query of the URL.
        const QUERY = 4;
        /// In a string of a JSON body.
        const BODY_JSON = 8;
    }
}

impl Spots {
    /// The words in settings.
    pub const WORDS: &'static [&'static str] = &["header", "basic", "query", "body-json"];
    /// Those that are meant when none is named.
    pub const USUAL: Self = Self::HEADER.union(Self::BASIC);
}

/// A word that names no spot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected header, basic, query or body-json")]
pub struct InvalidSpot;

impl FromStr for Spots {
    type Err = InvalidSpot;

    fn from_str(word: &str) -> Result<Self, InvalidSpot> {
        let index = Self::WORDS.iter().position(|known| *known == word).ok_or(InvalidSpot)?;
        Ok(Self::from_bits_truncate(1 << index))
    }
}

/// A secret of which the sandbox has a placeholder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRule {
    /// Its name in `pinfold secret`.
    pub id: String,
    /// The variable inside that holds the placeholder.
    pub env: EnvName,
    /// The hosts it is sent to, and no others.
    pub hosts: Vec<HostPattern>,
    /// Their TCP ports.
    pub ports: Vec<u16>,
    /// Where in a request.
    pub spots: Spots,
    /// Whether a run without the secret is refused.
    pub required: bool,
}

impl SecretRule {
    /// Returns whether the secret may go to a host.
    #[must_use]
    pub fn is_for(&self, asked: &Endpoint) -> bool {
        let host = self.hosts.iter().any(|pattern| pattern.matches(&asked.host));
        host && self.ports.contains(&asked.port)
    }

    /// Returns rules for the hosts of a secret, over TLS: it is of no use without them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = NetworkRule> + '_ {
        self.hosts.iter().flat_map(|hosts| {
            self.ports.iter().map(|port| NetworkRule {
                ports: Ports::One(*port),
                protocol: (*port != 443).then_some(Protocol::Tls),
                ..NetworkRule::web(hosts.clone())
            })
        })
    }
}

impl fmt::Display for SecretRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {} for", self.id, self.env)?;
        for hosts in &self.hosts {
            write!(f, " {hosts}")?;
        }
        Ok(())
    }
}
