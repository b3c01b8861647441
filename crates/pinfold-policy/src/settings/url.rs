//! The base URL of a provider.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::network::AddressClass;

/// `https://host[:port][/path]`, or `http` where the host is this machine's loopback or the user
/// accepts plain HTTP. Without user, query or fragment, and without a final `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BaseUrl(String);

/// Why a text is no [`BaseUrl`]. The text itself is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaseUrlError {
    /// Neither `https://` nor `http://`.
    #[error("expected a URL that begins with https://")]
    Scheme,
    /// `http` to another machine would show the key to the network.
    #[error("http is accepted only for loopback; use https://")]
    Plain,
    /// `http` to an address of the internet.
    #[error("http is not accepted for an address of the internet; use https://")]
    PlainPublic,
    /// No host, or characters that no host name has.
    #[error("expected a host name or an address after ://")]
    Host,
    /// No port number.
    #[error("expected a port between 1 and 65535")]
    Port,
    /// A user, a query, a fragment, or white space.
    #[error("expected no user, query, fragment or white space in a base URL")]
    Extra,
}

impl BaseUrl {
    /// Returns the URL, without a final `/`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host, in lower case, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        split_authority(rest).map_or("", |(host, _)| host)
    }
}

/// Whether `http` is accepted for another machine than this one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PlainHttp {
    Refused,
    Accepted,
}

impl FromStr for BaseUrl {
    type Err = BaseUrlError;

    fn from_str(text: &str) -> Result<Self, BaseUrlError> {
        Self::read(text, PlainHttp::Refused)
    }
}

impl BaseUrl {
    /// Reads a URL that may be `http` for a server of the user's own network. An address of the internet
    /// still needs `https`.
    ///
    /// # Errors
    /// Returns why the text is no such URL.
    pub fn with_plain_http(text: &str) -> Result<Self, BaseUrlError> {
        Self::read(text, PlainHttp::Accepted)
    }

    fn read(text: &str, plain: PlainHttp) -> Result<Self, BaseUrlError> {
        let extra = |c: char| c.is_whitespace() || c.is_control() || "@?#\\".contains(c);
        if text.contains(extra) {
            return Err(BaseUrlError::Extra);
        }
        let (scheme, rest) = text.split_once("://").ok_or(BaseUrlError::Scheme)?;
        let (host, port) = split_authority(rest)?;
        check_port(port)?;
        let is_v6 = rest.starts_with('[');
        if !is_v6 && !is_host_name(host) {
            return Err(BaseUrlError::Host);
        }
        match scheme {
            "https" => {}
            "http" if is_loopback(host, is_v6) => {}
            "http" if plain == PlainHttp::Refused => return Err(BaseUrlError::Plain),
            "http" if is_public_address(host) => return Err(BaseUrlError::PlainPublic),
            "http" => {}
            _ => return Err(BaseUrlError::Scheme),
        }
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.to_ascii_lowercase();
        Ok(Self(format!("{scheme}://{authority}{}", path.trim_end_matches('/'))))
    }
}

/// Returns the host and the port of what follows `://`.
fn split_authority(rest: &str) -> Result<(&str, Option<&str>), BaseUrlError> {
    let authority = rest.split('/').next().unwrap_or_default();
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').ok_or(BaseUrlError::Host)?;
        host.parse::<Ipv6Addr>().map_err(|_| BaseUrlError::Host)?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err(BaseUrlError::Host),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((authority, None)),
    }
}

fn check_port(port: Option<&str>) -> Result<(), BaseUrlError> {
    let Some(port) = port else { return Ok(()) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if digits => Ok(()),
        _ => Err(BaseUrlError::Port),
    }
}

/// Labels of letters, digits and hyphens (RFC 1123, 2.1).
fn is_host_name(host: &str) -> bool {
    host.len() <= 253
        && host.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        })
}

/// Returns whether the host is this machine: a loopback address, or `localhost` (RFC 6761, 6.3). A name
/// that merely begins like one is not.
fn is_loopback(host: &str, is_v6: bool) -> bool {
    if is_v6 {
        return host.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback());
    }
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

fn is_public_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| AddressClass::of(address).is_public())
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
