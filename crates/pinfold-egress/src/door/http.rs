//! HTTP in the clear: each request is looked at by itself, and framed anew.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, PROXY_AUTHORIZATION, TE, UPGRADE};
use http::request::Parts;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1 as client1, http2 as client2};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use pinfold_policy::network::{Endpoint, Host, Protocol, Refused};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use super::refusal::NoWay;
use super::shared::Shared;
use crate::gateway::{is_websocket, strip_hop_by_hop};

/// Time for the head of a request, which is also how long an unused connection is kept.
const HEAD_LIMIT: Duration = Duration::from_secs(60);

/// Largest head of a request, in bytes.
const MAX_HEAD: usize = 64 * 1024;

/// Bytes read at once, at most; it also bounds the head of an answer.
const MAX_BUFFER: usize = 128 * 1024;

type Body = Either<Full<Bytes>, Incoming>;

/// Serves a client of the explicit proxy: every request names its host in its URL.
///
/// # Errors
/// Whatever broke the connection.
pub(super) async fn serve_proxy(shared: &Arc<Shared>, client: TcpStream) -> io::Result<()> {
    let line = Line { shared: Arc::clone(shared), fixed: None, open: Mutex::default() };
    serve1(line, client).await
}

/// Serves a client that was connected to one host.
///
/// # Errors
/// Whatever broke a connection.
pub(super) async fn serve_host(
    shared: &Arc<Shared>,
    client: TcpStream,
    upstream: TcpStream,
    asked: Endpoint,
    is_http2: bool,
) -> io::Result<()> {
    let sender = Sender::open(upstream, is_http2).await.map_err(io::Error::other)?;
    let open = Some(Open { asked: asked.clone(), sender });
    let line = Line { shared: Arc::clone(shared), fixed: Some(asked), open: Mutex::new(open) };
    if is_http2 { serve2(line, client).await } else { serve1(line, client).await }
}

async fn serve1(line: Line, client: TcpStream) -> io::Result<()> {
    let line = Arc::new(line);
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move { Ok::<_, Infallible>(line.handle(request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(client), service)
        .with_upgrades()
        .await
        .map_err(io::Error::other)
}

async fn serve2(line: Line, client: TcpStream) -> io::Result<()> {
    let line = Arc::new(line);
    let service = service_fn(move |request| {
        let line = Arc::clone(&line);
        async move { Ok::<_, Infallible>(line.handle(request).await) }
    });
    http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(MAX_HEAD as u32)
        .serve_connection(TokioIo::new(client), service)
        .await
        .map_err(io::Error::other)
}

/// One client's connection, with the upstream's that belongs to it.
struct Line {
    shared: Arc<Shared>,
    /// The one host, unless every request names its own.
    fixed: Option<Endpoint>,
    open: Mutex<Option<Open>>,
}

struct Open {
    asked: Endpoint,
    sender: Sender,
}

enum Sender {
    One(client1::SendRequest<Incoming>),
    Two(client2::SendRequest<Incoming>),
}

impl Sender {
    async fn open(upstream: TcpStream, is_http2: bool) -> hyper::Result<Self> {
        let io = TokioIo::new(upstream);
        // Each connection's task ends with it; what breaks it is told to the request on it.
        if is_http2 {
            let mut protocol = client2::Builder::new(TokioExecutor::new());
            let (sender, connection) = protocol.timer(TokioTimer::new()).handshake(io).await?;
            tokio::spawn(connection);
            return Ok(Self::Two(sender));
        }
        let mut protocol = client1::Builder::new();
        let (sender, connection) = protocol.max_buf_size(MAX_BUFFER).handshake(io).await?;
        tokio::spawn(connection.with_upgrades());
        Ok(Self::One(sender))
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::One(sender) => sender.is_closed(),
            Self::Two(sender) => sender.is_closed(),
        }
    }
}

impl Line {
    /// Answers one request. What goes wrong is an answer too.
    async fn handle(&self, mut request: Request<Incoming>) -> Response<Body> {
        // With the response the server's side of an upgrade is given away; take it first.
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        match self.forward(request, upgrade).await {
            Ok(response) => response,
            Err(no_way) => no_way.response().map(Either::Left),
        }
    }

    async fn forward(
        &self,
        request: Request<Incoming>,
        upgrade: Option<OnUpgrade>,
    ) -> Result<Response<Body>, NoWay> {
        let (mut head, body) = request.into_parts();
        let asked = self.asked(&head)?;
        self.check_request(&asked, &head)?;
        let upgrade = upgrade.filter(|_| is_websocket(&head));
        rewrite(&mut head, &asked, upgrade.is_some())?;
        let response = self.send(&asked, Request::from_parts(head, body)).await?;
        Ok(match upgrade {
            Some(client) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                switch(client, response)
            }
            _ => relayed(response),
        })
    }

    /// The host of a request, which all places that can name it agree on.
    fn asked(&self, head: &Parts) -> Result<Endpoint, NoWay> {
        const HTTP: u16 = 80;
        let malformed = NoWay::Malformed;
        if head.method == Method::CONNECT {
            return Err(malformed("CONNECT opens a connection of its own"));
        }
        let mut hosts = head.headers.get_all(HOST).into_iter();
        let host = hosts.next().map(|value| value.to_str().unwrap_or_default());
        if hosts.next().is_some() {
            return Err(malformed("two Host headers"));
        }
        if head.uri.scheme().is_some_and(|scheme| *scheme != Scheme::HTTP) {
            return Err(malformed("only http: URLs; others are tunnelled with CONNECT"));
        }
        let authority = head.uri.authority().map(http::uri::Authority::as_str);
        let default = self.fixed.as_ref().map_or(HTTP, |asked| asked.port);
        let read = |text: &str| {
            let endpoint = Endpoint::parse(text, Some(HTTP));
            endpoint.map_err(|_| malformed("the host is not in its plain form"))
        };
        let in_url = authority.map(read).transpose()?;
        let in_header = host.map(read).transpose()?;
        let asked = match (&self.fixed, &in_url) {
            (Some(fixed), _) => fixed.clone(),
            (None, Some(in_url)) => in_url.clone(),
            (None, None) => return Err(malformed("a proxy's request names its host in its URL")),
        };
        for said in in_url.iter().chain(&in_header) {
            // A port that is left out is the connection's own.
            let same_port = said.port == asked.port || said.port == default || said.port == HTTP;
            if said.host != asked.host && !is_address(&asked) || !same_port {
                return Err(self.shared.other_name(&asked, &said.to_string()));
            }
        }
        Ok(asked)
    }

    /// Holds method and path against the rules, as they are now.
    fn check_request(&self, asked: &Endpoint, head: &Parts) -> Result<(), NoWay> {
        let policy = self.shared.policy();
        let rule = policy.decide(asked).map_err(|refused| self.shared.refuse(refused))?;
        let (method, path) = (head.method.as_str(), head.uri.path());
        if policy.rules_for(asked).any(|rule| rule.allows_request(method, path)) {
            return Ok(());
        }
        let rule = Box::new(rule.value.clone());
        Err(self.shared.refuse(Refused::Request { asked: asked.clone(), rule }))
    }

    async fn send(
        &self,
        asked: &Endpoint,
        mut request: Request<Incoming>,
    ) -> Result<Response<Incoming>, NoWay> {
        let broke = |error: &hyper::Error| {
            NoWay::Unreachable(format!("{asked} broke the connection: {error}"))
        };
        let is_http2 = request.version() == Version::HTTP_2;
        let mut open = self.open.lock().await;
        let usable = |open: &Open| open.asked == *asked && !open.sender.is_closed();
        if !open.as_ref().is_some_and(usable) {
            *open = Some(self.open(asked, is_http2).await?);
        }
        // A kept connection may turn out to be closed before anything was sent on it: once.
        for last in [false, true] {
            let Some(Open { sender, .. }) = open.as_mut() else { break };
            let mut error = match sender {
                Sender::Two(sender) => {
                    let mut sender = sender.clone();
                    drop(open);
                    return sender.send_request(request).await.map_err(|error| broke(&error));
                }
                Sender::One(sender) => {
                    sender.ready().await.map_err(|error| broke(&error))?;
                    match sender.try_send_request(request).await {
                        Ok(response) => return Ok(response),
                        Err(error) => error,
                    }
                }
            };
            match error.take_message() {
                Some(unsent) if !last => request = unsent,
                _ => return Err(broke(&error.into_error())),
            }
            *open = Some(self.open(asked, is_http2).await?);
        }
        Err(NoWay::Unreachable(format!("{asked} closes every connection")))
    }

    async fn open(&self, asked: &Endpoint, is_http2: bool) -> Result<Open, NoWay> {
        if self.shared.admit(asked)? == Protocol::Tls {
            let refused = Refused::Protocol { asked: asked.clone(), expected: "TLS" };
            return Err(self.shared.refuse(refused));
        }
        let upstream = self.shared.dial(asked).await?;
        let sender = Sender::open(upstream, is_http2).await;
        let sender = sender.map_err(|error| NoWay::Unreachable(format!("{asked}: {error}")))?;
        Ok(Open { asked: asked.clone(), sender })
    }
}

fn is_address(asked: &Endpoint) -> bool {
    matches!(asked.host, Host::Address(_))
}

/// Makes the request the next hop's: its target, its host, and nothing meant for this hop.
fn rewrite(head: &mut Parts, asked: &Endpoint, is_upgrade: bool) -> Result<(), NoWay> {
    let malformed = |_| NoWay::Malformed("the request's target");
    let wants_trailers = head.headers.get(TE).is_some_and(|value| value == "trailers");
    strip_hop_by_hop(&mut head.headers);
    head.headers.remove(PROXY_AUTHORIZATION);
    let path = head.uri.path_and_query().cloned();
    let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
    let host = if asked.port == 80 { asked.host.to_string() } else { asked.to_string() };
    if head.version == Version::HTTP_2 {
        let whole = Uri::builder().scheme(Scheme::HTTP).authority(host).path_and_query(path);
        head.uri = whole.build().map_err(malformed)?;
        head.headers.remove(HOST);
        if wants_trailers {
            // gRPC insists on it.
            head.headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        return Ok(());
    }
    head.uri = path.into();
    head.version = Version::HTTP_11;
    if !head.headers.contains_key(HOST) || !is_address(asked) {
        let host = HeaderValue::try_from(host);
        head.headers.insert(HOST, host.map_err(|_| NoWay::Malformed("the host"))?);
    }
    if is_upgrade {
        head.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        head.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    Ok(())
}

/// An answer as it passes: status, headers and body.
fn relayed(upstream: Response<Incoming>) -> Response<Body> {
    let mut response = upstream.map(Either::Right);
    strip_hop_by_hop(response.headers_mut());
    response
}

/// Passes a 101 on, then bytes both ways.
fn switch(client: OnUpgrade, upstream: Response<Incoming>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
    *response.status_mut() = upstream.status();
    let own: [HeaderName; 2] = [CONNECTION, UPGRADE];
    *response.headers_mut() = upstream.headers().clone();
    strip_hop_by_hop(response.headers_mut());
    for (name, value) in own.into_iter().zip(["Upgrade", "websocket"]) {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    tokio::spawn(async move {
        let both = tokio::try_join!(client, hyper::upgrade::on(upstream));
        if let Ok((client, upstream)) = both {
            let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
            // However it ends, both ends are closed and see it.
            let _ = copy_bidirectional(&mut client, &mut upstream).await;
        }
    });
    response
}
