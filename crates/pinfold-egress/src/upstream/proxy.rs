//! A proxy that stands between this host and the internet.

use std::fmt;
use std::io;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use pinfold_policy::network::{Endpoint, Host, HostPattern};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use super::TrustRoots;

/// An HTTP proxy that opens tunnels (`CONNECT`, RFC 9110, 9.3.6), and the hosts that are reached
/// without it.
#[derive(Clone)]
pub struct UpstreamProxy {
    /// Where the proxy is.
    pub(crate) at: Endpoint,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Zeroizing<String>>,
    /// Hosts that are reached directly.
    direct: Vec<HostPattern>,
    direct_all: bool,
}

/// The proxies of this host, by what they are for.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// Opens tunnels, for everything but what the other one does.
    pub tunnels: Option<UpstreamProxy>,
    /// Passes requests on that are made in the clear: many proxies open tunnels for TLS alone.
    pub requests: Option<UpstreamProxy>,
}

impl Proxies {
    /// Returns the proxy for a tunnel to a host.
    pub(crate) fn tunnel_to(&self, host: &Host) -> Option<&UpstreamProxy> {
        self.tunnels.as_ref().filter(|proxy| proxy.serves(host))
    }

    /// Returns the proxy for a request to a host in the clear.
    pub(crate) fn request_to(&self, host: &Host) -> Option<&UpstreamProxy> {
        self.requests.as_ref().filter(|proxy| proxy.serves(host))
    }
}

/// How servers are reached: who vouches for them, and what stands between.
#[derive(Clone, Debug, Default)]
pub struct WayOut {
    /// Which authorities vouch for servers.
    pub roots: TrustRoots,
    /// The proxies that this host needs.
    pub proxies: Proxies,
}

impl From<TrustRoots> for WayOut {
    /// Makes a route without a proxy.
    fn from(roots: TrustRoots) -> Self {
        Self { roots, proxies: Proxies::default() }
    }
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

/// 407 (RFC 9110, 15.5.8).
const PASSWORD_WANTED: u16 = 407;

/// What that means, with a hint.
pub(crate) const WANTS_PASSWORD: &str = "the proxy of this host wants a user and a password, or \
    others: set $HTTPS_PROXY and $HTTP_PROXY to http://user:password@host:port on the host";

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

    /// Returns whether a host is reached through the proxy. This machine itself never is.
    fn serves(&self, host: &Host) -> bool {
        let is_own = match host {
            Host::Name(name) => name.is_localhost() || name.is_this_machine(),
            Host::Address(address) => address.is_loopback(),
        };
        !is_own && !self.direct_all && !self.direct.iter().any(|pattern| pattern.matches(host))
    }

    /// Returns what the proxy knows this host by, for requests that go through it without a tunnel.
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_ref().map(|value| value.as_str())
    }

    /// Asks the proxy for a tunnel.
    ///
    /// # Errors
    /// Returns an error for a broken connection, or whatever the proxy refused.
    pub(crate) async fn tunnel(&self, stream: &mut TcpStream, to: &Endpoint) -> io::Result<()> {
        let authorization = match &self.authorization {
            Some(value) => Zeroizing::new(format!("Proxy-Authorization: {}\r\n", value.as_str())),
            None => Zeroizing::default(),
        };
        let authorization = authorization.as_str();
        let request =
            Zeroizing::new(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n{authorization}\r\n"));
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
            Some((200..=299, _)) => Ok(()),
            Some((PASSWORD_WANTED, _)) => Err(io::Error::other(WANTS_PASSWORD)),
            Some((code, reason)) => {
                Err(io::Error::other(format!("the proxy of this host answered {code} {reason}")))
            }
            None => Err(io::Error::other("the proxy speaks no HTTP")),
        }
    }
}

/// Returns the status code, and what the proxy says about it.
fn status(answer: &[u8]) -> Option<(u16, String)> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut headers);
    response.parse(answer).ok()?;
    Some((response.code?, response.reason.unwrap_or_default().escape_debug().to_string()))
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
        let at =
            Endpoint::parse(authority, Some(DEFAULT_PORT)).map_err(|_| InvalidProxy::Address)?;
        let authorization = user.map(|user| {
            let coded = Zeroizing::new(STANDARD.encode(percent_decoded(user)));
            Zeroizing::new(format!("Basic {}", coded.as_str()))
        });
        Ok(Self { at, authorization, direct: Vec::new(), direct_all: false })
    }
}

fn percent_decoded(text: &str) -> Zeroizing<Vec<u8>> {
    // Never more than it was, so that no copy is left behind by growing.
    let mut decoded = Zeroizing::new(Vec::with_capacity(text.len()));
    decoded.extend(percent_decode_str(text));
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
        assert_eq!(proxy.authorization(), Some("Basic bWU6cEBzcw=="));
        assert!(!format!("{proxy:?}").contains("bWU6"));
        assert!("socks5://a:1".parse::<UpstreamProxy>().is_err());
        let proxy = proxy.except("localhost,.corp, 10.0.0.1");
        for (host, through) in
            [("a.corp", false), ("corp", false), ("10.0.0.1", false), ("example.com", true)]
        {
            assert_eq!(proxy.serves(&host.parse().expect("a host")), through, "{host}");
        }
        for own in ["localhost", "127.0.0.1", "::1"] {
            let proxy: UpstreamProxy = "proxy.corp".parse().expect("a proxy");
            assert!(!proxy.serves(&own.parse().expect("a host")), "{own}");
        }
        assert!(!proxy.except("*").serves(&"example.com".parse().expect("a host")));
    }
}
