//! Outgoing connections: a name is resolved once, its addresses are checked, and one of these is used.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use pinfold_policy::network::{AddressClass, Endpoint, Host};
use tokio::net::TcpStream;

use super::ask::Doorkeeper;
use super::own_addresses::Routes;
use super::refusal::NoWay;
use super::shared::Shared;
use crate::upstream::UpstreamProxy;

/// Time for the name, the connection and a proxy on the way together.
const LIMIT: Duration = Duration::from_secs(10);

/// How long one address is waited for before the next is tried as well (RFC 8305, 5).
const HEAD_START: Duration = Duration::from_millis(250);

impl Shared {
    /// Opens a connection that was admitted.
    ///
    /// # Errors
    /// Returns an error for an address that the policy does not allow, or no connection.
    pub(super) async fn dial(&self, asked: &Endpoint) -> Result<TcpStream, NoWay> {
        let dialled = tokio::time::timeout(LIMIT, self.dial_unhurried(asked)).await;
        let stream = dialled.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            Err(NoWay::Unreachable(format!("{asked} did not answer within {seconds} seconds")))
        })?;
        // A stream without it works too, only later.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    async fn dial_unhurried(&self, asked: &Endpoint) -> Result<TcpStream, NoWay> {
        let unreachable =
            |error: io::Error| NoWay::Unreachable(format!("{asked} cannot be reached: {error}"));
        if let Some(proxy) = self.way.proxies.tunnel_to(&asked.host) {
            if let Host::Address(address) = asked.host {
                self.check(asked, address)?;
            }
            let mut stream = self.connect_to_proxy(proxy).await?;
            proxy.tunnel(&mut stream, asked).await.map_err(unreachable)?;
            return Ok(stream);
        }
        let mut addresses = self.addresses(asked).await?;
        addresses.retain(|address| !self.is_for_answers(SocketAddr::new(*address, asked.port)));
        connect(&addresses, asked.port).await.map_err(unreachable)
    }

    /// Opens a connection to a proxy on which requests to an admitted host can be made.
    ///
    /// # Errors
    /// Returns an error for an address that the policy does not allow, or no connection.
    pub(super) async fn dial_proxy(
        &self,
        proxy: &UpstreamProxy,
        asked: &Endpoint,
    ) -> Result<TcpStream, NoWay> {
        if let Host::Address(address) = asked.host {
            self.check(asked, address)?;
        }
        let connected = tokio::time::timeout(LIMIT, self.connect_to_proxy(proxy)).await;
        connected.unwrap_or_else(|_| {
            let seconds = LIMIT.as_secs();
            let why = format!("the proxy {} did not answer within {seconds} seconds", proxy.at);
            Err(NoWay::Unreachable(why))
        })
    }

    async fn connect_to_proxy(&self, proxy: &UpstreamProxy) -> Result<TcpStream, NoWay> {
        let addresses = self.resolve(&proxy.at.host).await?;
        let connected = connect(&addresses, proxy.at.port).await;
        connected.map_err(|error| {
            NoWay::Unreachable(format!("the proxy {} cannot be reached: {error}", proxy.at))
        })
    }

    /// Returns the addresses of a host that may be used for it.
    ///
    /// # Errors
    /// Returns an error if no such name, or none of its addresses is allowed.
    async fn addresses(&self, asked: &Endpoint) -> Result<Vec<IpAddr>, NoWay> {
        let mut addresses = self.resolve(&asked.host).await?;
        let policy = self.policy();
        let unknown = |error: io::Error| {
            NoWay::Unreachable(format!("the addresses of this machine are not known: {error}"))
        };
        let routes = Routes::open().map_err(unknown)?;
        let own = addresses.iter().map(|address| routes.is_own(*address));
        let own: Vec<bool> = own.collect::<io::Result<_>>().map_err(unknown)?;
        let (mut refused, mut own) = (None, own.into_iter());
        addresses.retain(|address| {
            // What this machine serves at a public address of its own may be open to nobody else.
            let is_own = own.next().unwrap_or(true);
            let address = if is_own { Ipv4Addr::LOCALHOST.into() } else { *address };
            match policy.check_address(asked, address) {
                Ok(()) => true,
                Err(why) => {
                    refused = Some(why);
                    false
                }
            }
        });
        match refused {
            Some(refused) if addresses.is_empty() => Err(self.refuse(refused, None)),
            _ => Ok(addresses),
        }
    }

    /// Returns whether answers to questions are given at an address: whatever a rule says, only the user reaches it.
    fn is_for_answers(&self, address: SocketAddr) -> bool {
        let is_it = |doorkeeper: &Arc<dyn Doorkeeper>| doorkeeper.answers_at(address);
        // An IPv6 address can carry it, and the unspecified one leads to it.
        let class = AddressClass::of(address.ip());
        let is_here = matches!(class, AddressClass::Loopback | AddressClass::Reserved);
        is_here && self.doorkeeper.as_ref().is_some_and(is_it)
    }

    fn check(&self, asked: &Endpoint, address: IpAddr) -> Result<(), NoWay> {
        self.policy().check_address(asked, address).map_err(|refused| self.refuse(refused, None))
    }

    async fn resolve(&self, host: &Host) -> Result<Vec<IpAddr>, NoWay> {
        match host {
            Host::Address(address) => Ok(vec![*address]),
            host if host.is_this_machine() => {
                Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
            }
            Host::Name(name) => {
                let resolved = self.dns.clone().resolve(name.as_str().to_owned()).await;
                resolved.map_err(|failure| NoWay::Unreachable(failure.to_string()))
            }
        }
    }
}

/// Connects to the first address that answers, beginning with the first of the list.
async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let mut waiting = addresses.iter().map(|address| SocketAddr::new(*address, port));
    let mut attempts = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match waiting.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let more = waiting.len() > 0;
        let head_start = async {
            if more { tokio::time::sleep(HEAD_START).await } else { std::future::pending().await }
        };
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = error,
                None => {}
            },
            () = head_start => {}
        }
    }
}
