//! Ports of a sandbox that the host can reach.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// An address of the host that leads to a port of the sandbox's loopback interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedPort {
    /// The address on the host. Without one it is loopback.
    pub host: SocketAddr,
    /// The port in the sandbox.
    pub sandbox: u16,
}

/// A text that is no published port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected [ADDRESS:][HOST_PORT:]PORT, with an address of this machine, such as 8080:3000")]
pub struct InvalidPublishedPort;

impl FromStr for PublishedPort {
    type Err = InvalidPublishedPort;

    fn from_str(text: &str) -> Result<Self, InvalidPublishedPort> {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let host = |text: &str| match text.parse() {
            Ok(port) => Ok(local(port)),
            Err(_) => text.parse::<SocketAddr>().map_err(|_| InvalidPublishedPort),
        };
        let same = host(text).map(|host| Self { host, sandbox: host.port() });
        let mapped = || {
            let (outer, port) = text.rsplit_once(':').ok_or(InvalidPublishedPort)?;
            let sandbox = port.parse().map_err(|_| InvalidPublishedPort)?;
            Ok(Self { host: host(outer)?, sandbox })
        };
        let port = same.or_else(|_| mapped())?;
        let is_valid = port.host.port() != 0 && port.sandbox != 0;
        Some(port).filter(|_| is_valid).ok_or(InvalidPublishedPort)
    }
}

impl fmt::Display for PublishedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.host.fmt(f)?;
        if self.sandbox == self.host.port() { Ok(()) } else { write!(f, ":{}", self.sandbox) }
    }
}
