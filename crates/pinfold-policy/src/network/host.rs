//! Host names and addresses in the one form in which they are compared.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use std::sync::Arc;

/// A DNS name in canonical form: ASCII, lower case, internationalised labels as A-labels (RFC
/// 5890), no final dot. Two names are the same host exactly if they are equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Arc<str>);

/// Why a text is no host. The text is the caller's to show, escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidHost {
    /// Nothing at all.
    #[error("a host name is empty")]
    Empty,
    /// More than 253 bytes (RFC 1035, 2.3.4).
    #[error("a host name is longer than 253 bytes")]
    TooLong,
    /// A label that is empty, longer than 63 bytes, or has other characters than letters, digits,
    /// hyphens and underscores.
    #[error("a host name has a label that DNS does not allow")]
    Label,
    /// A last label that is a number: what reads such a name may take it for an address in one of
    /// its old notations (`127.1`, `0x7f000001`, `2130706433`).
    #[error("a host that ends in a number is written as an address: four decimal numbers")]
    Numeric,
    /// No valid internationalised name (UTS #46).
    #[error("not a valid internationalised host name")]
    Unicode,
}

impl HostName {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this name lies below another: it has more labels, and ends in all of the other's.
    #[must_use]
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_suffix(&*other.0).is_some_and(|before| before.ends_with('.'))
    }

    /// Returns whether the name means the machine that asks (RFC 6761, 6.3).
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        &*self.0 == "localhost" || self.0.ends_with(".localhost")
    }
}

impl FromStr for HostName {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let ascii = if text.is_ascii() {
            text.to_ascii_lowercase()
        } else {
            idna::domain_to_ascii_strict(text).map_err(|_| InvalidHost::Unicode)?
        };
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        match name.len() {
            0 => return Err(InvalidHost::Empty),
            1..=253 => {}
            _ => return Err(InvalidHost::TooLong),
        }
        if !name.split('.').all(is_label) {
            return Err(InvalidHost::Label);
        }
        if name.rsplit('.').next().is_some_and(is_number) {
            return Err(InvalidHost::Numeric);
        }
        Ok(Self(name.into()))
    }
}

fn is_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Returns a number as the URL Standard reads one in a host (3.5, "ends in a number checker").
fn is_number(label: &str) -> bool {
    let hexadecimal = label.strip_prefix("0x");
    label.bytes().all(|byte| byte.is_ascii_digit())
        || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Who is to be reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// By name.
    Name(HostName),
    /// By address; an IPv4 address in an IPv6 one (RFC 4291, 2.5.5.2) is the IPv4 address.
    Address(IpAddr),
}

impl Host {
    /// Returns a host by address, in the one form of that address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = InvalidHost;

    /// Reads a name, an IPv4 address in four decimal numbers, or an IPv6 address with or without
    /// brackets. No other notation of an address is one.
    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<Ipv6Addr>() {
            return Ok(Self::address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}
