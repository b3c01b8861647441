//! `host:port` as clients write it.

use std::fmt;

use super::host::{Host, InvalidHost};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

/// Why a text is no [`Endpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEndpoint {
    #[error(transparent)]
    Host(#[from] InvalidHost),
    /// No port, or none between 1 and 65535 in decimal digits.
    #[error("expected a port between 1 and 65535 after the host")]
    Port,
    /// A user name before the host: it makes a host look like another.
    #[error("a user name before the host is not accepted")]
    User,
}

impl Endpoint {
    /// Returns a host and a port.
    #[must_use]
    pub fn new(host: Host, port: u16) -> Self {
        Self { host, port }
    }

    /// Reads an authority (RFC 3986, 3.2) without a user part.
    ///
    /// # Errors
    /// Returns an error for a user part, an invalid host, or a port that is neither there nor given as
    /// `default`.
    pub fn parse(text: &str, default: Option<u16>) -> Result<Self, InvalidEndpoint> {
        if text.contains('@') {
            return Err(InvalidEndpoint::User);
        }
        let (host, port) = split(text);
        let port = match port {
            None => default.ok_or(InvalidEndpoint::Port)?,
            Some(digits) => parse_port(digits).ok_or(InvalidEndpoint::Port)?,
        };
        Ok(Self { host: host.parse()?, port })
    }
}

/// Returns the host and the digits after the last colon that is not inside brackets.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    let after_brackets = text.rfind(']').map_or(0, |at| at + 1);
    match text[after_brackets..].find(':') {
        Some(at) => {
            let at = after_brackets + at;
            (&text[..at], Some(&text[at + 1..]))
        }
        None => (text, None),
    }
}

pub(super) fn parse_port(digits: &str) -> Option<u16> {
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| plain && *port != 0)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
