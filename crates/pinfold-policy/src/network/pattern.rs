//! Patterns over host names.

use std::fmt;
use std::str::FromStr;

use super::host::{Host, HostName, InvalidHost};

/// Which hosts a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HostPattern {
    /// This host.
    Exactly(Host),
    /// `*.name`: every name below it, at any depth, and not the name itself.
    Below(HostName),
    /// `*`: every name, and no address.
    AnyName,
}

/// Why a text is no [`HostPattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPattern {
    /// The host in it.
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// A `*` elsewhere than as the whole first label.
    #[error("`*` means whole labels at the front, as in *.example.com")]
    Star,
    /// A URL.
    #[error("expected a host name, not a URL: leave out the scheme")]
    Url,
}

impl HostPattern {
    /// Returns whether a host is meant.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exactly(one), host) => one == host,
            (Self::Below(parent), Host::Name(name)) => name.is_below(parent),
            (Self::AnyName, Host::Name(_)) => true,
            (Self::Below(_) | Self::AnyName, Host::Address(_)) => false,
        }
    }

    /// Returns whether every host that `other` means is meant by this one too.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exactly(host)) => self.matches(host),
            (Self::Below(parent), Self::Below(name)) => name == parent || name.is_below(parent),
            (Self::AnyName, Self::Below(_) | Self::AnyName) => true,
            (Self::Exactly(_), _) | (Self::Below(_), Self::AnyName) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        if text.contains("://") {
            return Err(InvalidPattern::Url);
        }
        if text == "*" {
            return Ok(Self::AnyName);
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.contains('*') {
            return Err(InvalidPattern::Star);
        }
        Ok(if below { Self::Below(rest.parse()?) } else { Self::Exactly(rest.parse()?) })
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(host) => host.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::AnyName => f.write_str("*"),
        }
    }
}
