//! One connection to a server: name, TCP, TLS, within a time limit.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use pinfold_policy::network::Endpoint;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::dns::Dns;
use super::proxy::{Proxies, WayOut};
use super::{Failure, H2, HTTP1, TrustRoots, client_config};

/// Seconds for name, TCP and TLS together.
const CONNECT_SECONDS: u64 = 10;

/// After how long of silence the kernel asks whether the other end is still there. A model may
/// think for minutes without a byte, and a dead peer must not look like that for ever.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 4;

/// Which protocols are offered in the TLS handshake (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// HTTP/1.1 alone: WebSockets and cut connections pass as they are.
    Http1,
    /// HTTP/2 before HTTP/1.1: many requests on one connection.
    Http2,
}

/// Opens connections for the HTTP client. Cheap to make: trusted certificates and resolver
/// settings are read when a connection first needs them.
#[derive(Clone)]
pub struct Connector {
    http: HttpConnector<Dns>,
    proxies: Arc<Proxies>,
    tls: Arc<Tls>,
}

struct Tls {
    roots: TrustRoots,
    offer: Offer,
    config: OnceLock<Arc<ClientConfig>>,
}

impl Connector {
    /// Returns what connects this way.
    #[must_use]
    pub fn new(way: WayOut, offer: Offer) -> Self {
        let WayOut { roots, proxies } = way;
        let mut http = HttpConnector::new_with_resolver(Dns::default());
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(KEEPALIVE));
        http.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
        http.set_keepalive_retries(Some(KEEPALIVE_PROBES));
        let tls = Tls { roots, offer, config: OnceLock::new() };
        Self { http, proxies: Arc::new(proxies), tls: Arc::new(tls) }
    }

    /// Returns a connection on which TLS can begin.
    async fn tunnelled(&mut self, to: Uri) -> Result<TokioIo<TcpStream>, Failure> {
        let authority = to.authority().map_or("", |authority| authority.as_str());
        let proxies = Arc::clone(&self.proxies);
        let endpoint = Endpoint::parse(authority, Some(443)).ok();
        let proxy = endpoint.and_then(|endpoint| {
            let proxy = proxies.tunnel_to(&endpoint.host)?;
            Some((proxy, endpoint))
        });
        let Some((proxy, endpoint)) = proxy else {
            return self.http.call(to).await.map_err(|error| tcp_failure(&error));
        };
        let failed = |error: &dyn std::fmt::Display| Failure::Connect(error.to_string());
        let at: Uri = format!("http://{}", proxy.at).parse().map_err(|error| {
            let error: http::uri::InvalidUri = error;
            failed(&error)
        })?;
        let mut stream = self.http.call(at).await.map_err(|error| tcp_failure(&error))?;
        let tunnel = proxy.tunnel(stream.inner_mut(), &endpoint).await;
        tunnel.map_err(|error| failed(&error))?;
        Ok(stream)
    }

    async fn connect(mut self, to: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, Failure> {
        let host = to.host().unwrap_or_default();
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let encrypted = to.scheme() != Some(&Scheme::HTTP);
        if !encrypted {
            // Only towards this machine.
            let tcp = self.http.call(to).await.map_err(|error| tcp_failure(&error))?;
            return Ok(MaybeHttpsStream::Http(tcp));
        }
        let tcp = self.tunnelled(to).await?;
        let config = self.tls.config()?;
        let name = ServerName::try_from(name).map_err(|error| Failure::Tls(error.to_string()))?;
        let tls = TlsConnector::from(config)
            .connect(name, TokioIo::new(tcp))
            .await
            .map_err(|error| Failure::Tls(error.to_string()))?;
        Ok(MaybeHttpsStream::Https(TokioIo::new(tls)))
    }
}

impl Tls {
    fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let mut config = client_config(&self.roots)?;
        config.alpn_protocols = match self.offer {
            Offer::Http1 => vec![HTTP1.to_vec()],
            Offer::Http2 => vec![H2.to_vec(), HTTP1.to_vec()],
        };
        Ok(Arc::clone(self.config.get_or_init(|| Arc::new(config))))
    }
}

fn tcp_failure(error: &(dyn std::error::Error + 'static)) -> Failure {
    if let Some(Failure::Dns { name, cause, missing }) = Failure::behind(error) {
        return Failure::Dns { name: name.clone(), cause: cause.clone(), missing: *missing };
    }
    let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    Failure::Connect(cause)
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = self.clone().connect(to);
        Box::pin(async move {
            let limit = Duration::from_secs(CONNECT_SECONDS);
            let outcome = tokio::time::timeout(limit, connecting).await;
            outcome.unwrap_or(Err(Failure::Timeout(CONNECT_SECONDS)))
        })
    }
}
