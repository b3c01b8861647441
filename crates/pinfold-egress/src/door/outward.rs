//! Connections that the inside's kernel hands over, and those of programs that know of a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pinfold_policy::network::{Endpoint, Host, Refused};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::peek::{Beginning, LONGEST, peek};
use super::refusal::NoWay;
use super::shared::Shared;
use super::{carry, dns, http};

/// Connections open at once. More wait in the listener's queue.
const MAX_CONNECTIONS: usize = 8 * 1024;

/// Pause after `accept` has failed for a lack of something, such as descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a refused client may take to show that it speaks HTTP, and gets words for an answer.
const WORDS: Duration = Duration::from_millis(40);

/// How long a client of the proxy may take for the head of its request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);

/// Accepts until the runtime ends.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let Ok(own) = listener.local_addr() else { return };
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The semaphore is never closed, so this ends with the runtime.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, own, Arc::clone(&shared), place));
            }
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
    // What breaks from here on is the client's own connection: there is nobody left to tell.
    // Names are asked for at a listener of their own, and wherever a program thinks they are.
    let _ = match to.port() {
        53 => dns::serve_tcp(stream, &shared).await,
        _ if to == own => by_proxy(stream, &shared).await,
        _ => handed_over(stream, to, &shared).await,
    };
    drop(place);
}

/// A connection to an address: the one of a name, or one that was known otherwise.
async fn handed_over(stream: TcpStream, to: SocketAddr, shared: &Arc<Shared>) -> io::Result<()> {
    let host = match to.ip().to_canonical() {
        IpAddr::V4(address) => match shared.names().name_of(address) {
            Some(name) => Host::Name(name.clone()),
            None => Host::address(to.ip()),
        },
        IpAddr::V6(_) => Host::address(to.ip()),
    };
    let asked = Endpoint::new(host, to.port());
    let admitted = match shared.admit(&asked) {
        Ok(protocol) => shared.dial(&asked).await.map(|upstream| (protocol, upstream)),
        Err(no_way) => Err(no_way),
    };
    match admitted {
        Ok((protocol, upstream)) => carry::carry(shared, stream, upstream, asked, protocol).await,
        Err(no_way) => turn_away(stream, &no_way).await,
    }
}

/// Ends a connection with words if the client understands them, else with a reset: either way
/// at once.
pub(super) async fn turn_away(mut stream: TcpStream, no_way: &NoWay) -> io::Result<()> {
    let mut buffer = [0; 64];
    let beginning = tokio::time::timeout(WORDS, peek(&stream, &mut buffer, 0)).await;
    let speaks =
        matches!(beginning, Ok(Ok(length)) if Beginning::of(&buffer[..length]) == Beginning::Http1);
    if speaks {
        return say(&mut stream, &no_way.bytes()).await;
    }
    reset(&stream)
}

/// A reset instead of an orderly end: nothing was served here.
pub(super) fn reset(stream: &TcpStream) -> io::Result<()> {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO))?;
    Ok(())
}

/// Writes a last answer and lets the client read it: what it has sent is read first, since
/// closing with unread bytes would reset the connection under the answer.
pub(super) async fn say(stream: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(1);
    /// Bytes that are read at most.
    const MOST: u64 = 256 * 1024;
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    let drain = async {
        let mut sink = [0; 4096];
        let mut rest = tokio::io::AsyncReadExt::take(stream, MOST);
        while tokio::io::AsyncReadExt::read(&mut rest, &mut sink).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(PATIENCE, drain).await.unwrap_or(Ok(()))
}

/// A client that was told of the proxy: `CONNECT`, or a request with a whole URL.
async fn by_proxy(mut stream: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let mut buffer = vec![0; LONGEST];
    let head = tokio::time::timeout(HEAD_LIMIT, connect_head(&stream, &mut buffer)).await??;
    drop(buffer);
    let (length, asked) = match head {
        Head::Connect(length, asked) => (length, asked),
        Head::Request => return http::serve_proxy(shared, stream).await,
        Head::Malformed(why) => {
            return say(&mut stream, &NoWay::Malformed(why).bytes()).await;
        }
    };
    take(&mut stream, length).await?;
    let admitted = match shared.admit(&asked) {
        Ok(protocol) => shared.dial(&asked).await.map(|upstream| (protocol, upstream)),
        Err(no_way) => Err(no_way),
    };
    match admitted {
        Ok((protocol, upstream)) => {
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            carry::carry(shared, stream, upstream, asked, protocol).await
        }
        Err(no_way) => say(&mut stream, &no_way.bytes()).await,
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
    /// A refusal about what was said on a connection that was admitted.
    pub(super) fn other_name(&self, asked: &Endpoint, said: &str) -> NoWay {
        const LONGEST: usize = 80;
        let said: String = said.chars().take(LONGEST).flat_map(char::escape_default).collect();
        self.refuse(Refused::OtherName { asked: asked.clone(), said })
    }
}
