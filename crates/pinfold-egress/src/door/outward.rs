//! Connections that the sandbox's kernel hands over, and those of programs that know of a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pinfold_policy::network::{Endpoint, Host, Protocol, Refused};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::ask::Lease;
use super::peek::{LONGEST, peek};
use super::refusal::NoWay;
use super::shared::Shared;
use super::{carry, dns, explain, http};

/// Connections open at once. More wait in the listener's queue.
const MAX_CONNECTIONS: usize = 8 * 1024;

/// Pause after `accept` has failed for a lack of something, such as descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a client of the proxy may take for the head of its request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// What a client of the proxy hears when its tunnel begins.
pub(super) const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// Accepts until the runtime ends.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(own) = listener.local_addr() else { return };
    accept_each(&listener, |stream, place| connection(stream, own, Arc::clone(&shared), place))
        .await;
}

/// Accepts until the runtime ends, and serves each connection on a task of its own.
pub(super) async fn accept_each<F>(
    listener: &TcpListener,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed, so this ends with the runtime.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, place))),
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn connection(
    stream: TcpStream,
    own: SocketAddr,
    shared: Arc<Shared>,
    place: OwnedSemaphorePermit,
) {
    let Ok(to) = stream.local_addr() else { return };
    // A stream without it works too, only later.
    let _ = stream.set_nodelay(true);
    // What breaks from here on is the client's own connection: there is nobody left to notify.
    // Names are asked for at a listener of their own, and wherever a program thinks they are.
    let _ = match to.port() {
        53 => dns::serve_tcp(stream, &shared).await,
        _ if to == own => by_proxy(stream, &shared).await,
        _ => handed_over(stream, to, &shared).await,
    };
    drop(place);
}

/// Serves a connection to an address: the one of a name, or one that was known otherwise.
async fn handed_over(stream: TcpStream, to: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    let host = match to.ip().to_canonical() {
        IpAddr::V4(address) => match shared.names().name_of(address) {
            Some(name) => Host::Name(name.clone()),
            None => Host::address(to.ip()),
        },
        IpAddr::V6(_) => Host::address(to.ip()),
    };
    let asked = Endpoint::new(host, to.port());
    match admitted(shared, &asked).await {
        Ok(Admitted { protocol, upstream, lease: _lease }) => {
            carry::carry(shared, stream, upstream, asked, protocol).await
        }
        Err(no_way) => explain::turn_away(shared, stream, &asked, &no_way).await,
    }
}

/// A connection that may be made.
pub(super) struct Admitted {
    pub(super) protocol: Protocol,
    /// None where each request will be passed on by a proxy.
    pub(super) upstream: Option<TcpStream>,
    /// Lasts as long as the connection.
    pub(super) lease: Option<Lease>,
}

/// Decides on a connection and opens the other side of it.
pub(super) async fn admitted(shared: &Shared, asked: &Endpoint) -> Result<Admitted, NoWay> {
    let (protocol, lease) = shared.admit(asked).await?;
    let by_request = shared.way.proxies.request_to(&asked.host).is_some();
    if protocol == Protocol::Http && by_request {
        return Ok(Admitted { protocol, upstream: None, lease });
    }
    let upstream = Some(shared.dial(asked).await?);
    Ok(Admitted { protocol, upstream, lease })
}

/// Serves a client that knows of the proxy: `CONNECT`, or a request with a whole URL.
async fn by_proxy(mut stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut buffer = vec![0; LONGEST];
    let head = tokio::time::timeout(HEAD_LIMIT, connect_head(&stream, &mut buffer)).await??;
    drop(buffer);
    let (length, asked) = match head {
        Head::Connect(length, asked) => (length, asked),
        Head::Request => return http::serve_proxy(shared, stream).await,
        Head::Malformed(why) => {
            return explain::say(&mut stream, &NoWay::Malformed(why).bytes()).await;
        }
    };
    take(&mut stream, length).await?;
    match admitted(shared, &asked).await {
        Ok(Admitted { protocol, upstream, lease: _lease }) => {
            stream.write_all(ESTABLISHED).await?;
            carry::carry(shared, stream, upstream, asked, protocol).await
        }
        Err(no_way) => explain::turn_away_tunnel(shared, stream, &asked, &no_way).await,
    }
}

pub(super) enum Head {
    /// A request for a tunnel: the length of its head, and where to.
    Connect(usize, Endpoint),
    /// Another request.
    Request,
    /// Nothing that can be served.
    Malformed(&'static str),
}

async fn connect_head(stream: &TcpStream, buffer: &mut [u8]) -> io::Result<Head> {
    const CONNECT: &[u8] = b"CONNECT ";
    let mut seen = 0;
    loop {
        let length = peek(stream, buffer, seen).await?;
        let bytes = &buffer[..length];
        let head = bytes.get(..CONNECT.len()).unwrap_or(bytes);
        if !CONNECT.starts_with(head) {
            return Ok(Head::Request);
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            return Ok(parse_connect(&bytes[..end + 4]));
        }
        if length == seen || length == buffer.len() {
            return Ok(Head::Malformed("the head of the request is cut or too long"));
        }
        seen = length;
    }
}

pub(super) fn parse_connect(head: &[u8]) -> Head {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) | Err(_) => return Head::Malformed("no sound HTTP head"),
    }
    let has_body = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("content-length")
            || header.name.eq_ignore_ascii_case("transfer-encoding")
    });
    if has_body {
        return Head::Malformed("CONNECT has no body");
    }
    match Endpoint::parse(request.path.unwrap_or_default(), None) {
        Ok(asked) => Head::Connect(head.len(), asked),
        Err(_) => Head::Malformed("CONNECT needs host:port, each in its plain form"),
    }
}

/// Takes bytes that were seen from the connection.
async fn take(stream: &mut TcpStream, length: usize) -> io::Result<()> {
    let mut taken = vec![0; length];
    tokio::io::AsyncReadExt::read_exact(stream, &mut taken).await?;
    Ok(())
}

impl Shared {
    /// Returns a refusal about what was said on a connection that was admitted.
    pub(super) fn other_name(&self, asked: &Endpoint, said: &str) -> NoWay {
        const LONGEST: usize = 80;
        let said: String = said.chars().take(LONGEST).flat_map(char::escape_default).collect();
        self.refuse(Refused::OtherName { asked: asked.clone(), said }, None)
    }
}
