//! A proxy that stands between this host and the internet.

use std::fmt;
use std::io;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pinfold_policy::network::{Endpoint, Host, HostPattern};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An HTTP proxy that opens tunnels (`CONNECT`, RFC 9110, 9.3.6), and the hosts that are reached
/// without it.
#[derive(Clone)]
pub struct UpstreamProxy {
    /// Where the proxy is.
    pub(super) at: Endpoint,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    /// Hosts that are reached directly.
    direct: Vec<HostPattern>,
    direct_all: bool,
}

/// Why a value is no proxy. It is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidProxy {
    /// Another scheme than http.
    #[error("only http:// proxies are supported")]
    Scheme,
    /// No host and port.
    #[error("expected http://[user:password@]host:port")]
    Address,
}

/// Longest answer of a proxy to `CONNECT`, in bytes.
const LONGEST_ANSWER: usize = 16 * 1024;

impl UpstreamProxy {
    /// Takes over a `NO_PROXY` list: names, each with all below it, addresses, or `*`.
    #[must_use]
    pub fn except(mut self, list: &str) -> Self {
        for entry in list.split(',').map(str::trim) {
            self.direct_all |= entry == "*";
            let name = entry.strip_prefix("*.").or(entry.strip_prefix('.')).unwrap_or(entry);
            if let Ok(host) = name.parse::<Host>() {
                if let Host::Name(name) = &host {
                    self.direct.push(HostPattern::Below(name.clone()));
                }
                self.direct.push(HostPattern::Exactly(host));
            }
        }
        self
    }

    /// Whether a host is reached through the proxy.
    pub(super) fn serves(&self, host: &Host) -> bool {
        !self.direct_all && !self.direct.iter().any(|pattern| pattern.matches(host))
    }

    /// Asks the proxy for a tunnel.
    ///
    /// # Errors
    /// A broken connection, or whatever the proxy refused.
    pub(super) async fn tunnel(&self, stream: &mut TcpStream, to: &Endpoint) -> io::Result<()> {
        let authorization = match &self.authorization {
            Some(value) => format!("Proxy-Authorization: {value}\r\n"),
            None => String::new(),
        };
        let request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        // By single bytes, since what follows the head belongs to the tunnel; it is short.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == LONGEST_ANSWER {
                return Err(io::Error::other("the proxy's answer is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        match status(&answer) {
            Some(200..=299) => Ok(()),
            Some(code) => Err(io::Error::other(format!("the proxy answered {code}"))),
            None => Err(io::Error::other("the proxy speaks no HTTP")),
        }
    }
}

fn status(answer: &[u8]) -> Option<u16> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(answer).ok()?;
    response.code
}

impl FromStr for UpstreamProxy {
    type Err = InvalidProxy;

    /// Reads `[http://][user:password@]host[:port]` as curl and others do.
    fn from_str(text: &str) -> Result<Self, InvalidProxy> {
        const DEFAULT_PORT: u16 = 1080;
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return Err(InvalidProxy::Scheme),
            None => text,
        };
        let rest = rest.split('/').next().unwrap_or_default();
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        let at = Endpoint::parse(authority, Some(DEFAULT_PORT));
        let at = at.map_err(|_| InvalidProxy::Address)?;
        let authorization =
            user.map(|user| format!("Basic {}", STANDARD.encode(percent_decoded(user))));
        Ok(Self { at, authorization, direct: Vec::new(), direct_all: false })
    }
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let hex = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
        match after.get(..2).filter(|_| byte == b'%').and_then(hex) {
            Some(value) => {
                decoded.push(value);
                rest = &after[2..];
            }
            None => {
                decoded.push(byte);
                rest = after;
            }
        }
    }
    decoded
}

impl fmt::Debug for UpstreamProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamProxy({})", self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read_as_others_write_them() {
        let proxy: UpstreamProxy = "http://me:p%40ss@proxy.corp:3128/".parse().expect("a proxy");
        assert_eq!(proxy.at.to_string(), "proxy.corp:3128");
        assert_eq!(proxy.authorization.as_deref(), Some("Basic bWU6cEBzcw=="));
        assert!(!format!("{proxy:?}").contains("bWU6"));
        assert!("socks5://a:1".parse::<UpstreamProxy>().is_err());
        let proxy = proxy.except("localhost,.corp, 10.0.0.1");
        for (host, through) in
            [("a.corp", false), ("corp", false), ("10.0.0.1", false), ("example.com", true)]
        {
            assert_eq!(proxy.serves(&host.parse().expect("a host")), through, "{host}");
        }
        assert!(!proxy.except("*").serves(&"example.com".parse().expect("a host")));
    }
}
