//! TLS that is ended here, so that each request can be checked against the rules and secrets be put
//! in: the server proves itself to pinfold, and pinfold's session authority to the client.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pinfold_policy::network::{Endpoint, Host};
use rustls::pki_types::ServerName;
use rustls::server::{Acceptor, ClientHello};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, TlsConnector};

use super::http;
use super::refusal::NoWay;
use super::shared::Shared;
use crate::upstream::{H2, HTTP1};

/// Time for a server to prove itself.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves one connection on which TLS to an allowed host was begun.
///
/// # Errors
/// Returns the error that broke the client's side.
pub(super) async fn intercept(
    shared: &Arc<Shared>,
    client: TcpStream,
    upstream: TcpStream,
    asked: Endpoint,
) -> io::Result<()> {
    let Some(authority) = &shared.authority else {
        return Err(io::Error::other("no authority for a host whose TLS is to be ended"));
    };
    let begun = LazyConfigAcceptor::new(Acceptor::default(), client).await?;
    let offered = offered(&begun.client_hello());
    // The server chooses first, so that both sides speak the same.
    let upstream = shared.secure(upstream, &asked, offered.clone()).await;
    let chosen = match &upstream {
        Ok(stream) => stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec),
        Err(_) => offered.iter().find(|one| *one == HTTP1).or(offered.first()).cloned(),
    };
    let is_http2 = chosen.as_deref() == Some(H2);
    let config = authority.config(&asked.host, chosen).map_err(io::Error::other)?;
    let client = begun.into_stream(config).await?;
    match upstream {
        Ok(upstream) => http::serve_secure(shared, client, upstream, asked, is_http2).await,
        Err(no_way) => http::serve_refusal(client, &no_way, is_http2).await,
    }
}

/// Returns the protocols of HTTP that a client offers (RFC 7301), as it would have them.
pub(super) fn offered(hello: &ClientHello<'_>) -> Vec<Vec<u8>> {
    let offers = hello.alpn().into_iter().flatten();
    offers.filter(|one| *one == H2 || *one == HTTP1).map(<[u8]>::to_vec).collect()
}

impl Shared {
    /// Begins TLS with a server, verified under the host's own name, with one of these protocols.
    pub(super) async fn secure(
        &self,
        stream: TcpStream,
        asked: &Endpoint,
        protocols: Vec<Vec<u8>>,
    ) -> Result<TlsStream<TcpStream>, NoWay> {
        let failed = |why: String| NoWay::Unreachable(format!("TLS with {asked} failed: {why}"));
        let name = match &asked.host {
            Host::Name(name) => ServerName::try_from(name.as_str().to_owned()),
            Host::Address(IpAddr::V4(address)) => Ok(ServerName::from(IpAddr::V4(*address))),
            Host::Address(IpAddr::V6(address)) => Ok(ServerName::from(IpAddr::V6(*address))),
        };
        let name = name.map_err(|error| failed(error.to_string()))?;
        let config = self.tls().map_err(|failure| failed(failure.to_string()))?;
        let mut config = (*config).clone();
        config.alpn_protocols = protocols;
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        let connected = tokio::time::timeout(HANDSHAKE, connecting).await.unwrap_or_else(|_| {
            let seconds = HANDSHAKE.as_secs();
            Err(io::Error::other(format!("no answer within {seconds} seconds")))
        });
        connected.map_err(|error| failed(error.to_string()))
    }
}
