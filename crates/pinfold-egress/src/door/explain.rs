//! How a refused connection ends: with the reason, in the words of what the client speaks.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pinfold_policy::network::{Endpoint, Host, HostName, Protocol};
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::LazyConfigAcceptor;

use super::carry::first_words;
use super::intercept::offered;
use super::mint::SessionAuthority;
use super::peek::Beginning;
use super::refusal::NoWay;
use super::shared::Shared;
use super::{http, outward};
use crate::upstream::{H2, HTTP1};

/// How long a refused client may take to show that it speaks HTTP or TLS, and gets words for an
/// answer: who waits for the server to speak first is to see the end within 50 ms.
const WORDS: Duration = Duration::from_millis(30);

/// How long a client of the proxy may take to begin TLS in a tunnel that leads nowhere.
const HELLO: Duration = Duration::from_secs(5);

/// How long a client may take to ask and to hear the answer.
const ANSWER: Duration = Duration::from_secs(30);

/// Ends a connection with words if the client understands them, else with a reset.
pub(super) async fn turn_away(
    shared: &Arc<Shared>,
    stream: TcpStream,
    asked: &Endpoint,
    no_way: &NoWay,
) -> io::Result<()> {
    turn_away_within(WORDS, shared, stream, asked, no_way).await
}

/// Does the same for a client of the proxy that asked for a tunnel. Most show nobody what a proxy
/// answers then, so where TLS is to be expected, and the client trusts the session's authority, the
/// answer comes through it.
pub(super) async fn turn_away_tunnel(
    shared: &Arc<Shared>,
    mut stream: TcpStream,
    asked: &Endpoint,
    no_way: &NoWay,
) -> io::Result<()> {
    if shared.authority.is_none() || Protocol::of_port(asked.port) != Protocol::Tls {
        return say(&mut stream, &no_way.bytes()).await;
    }
    stream.write_all(outward::ESTABLISHED).await?;
    turn_away_within(HELLO, shared, stream, asked, no_way).await
}

async fn turn_away_within(
    limit: Duration,
    shared: &Arc<Shared>,
    mut stream: TcpStream,
    asked: &Endpoint,
    no_way: &NoWay,
) -> io::Result<()> {
    let beginning = tokio::time::timeout(limit, first_words(&stream, None)).await;
    match (beginning, &shared.authority) {
        (Ok(Ok(Beginning::Http1)), _) => say(&mut stream, &no_way.bytes()).await,
        (Ok(Ok(Beginning::Tls(name))), Some(authority)) => {
            // Under the name that the client looks for, whatever was asked for.
            let name = name.and_then(|name| name.parse::<HostName>().ok()).map(Host::Name);
            let host = name.unwrap_or_else(|| asked.host.clone());
            let explained = through_tls(authority, stream, &host, no_way);
            tokio::time::timeout(ANSWER, explained).await?
        }
        _ => reset(&stream),
    }
}

async fn through_tls(
    authority: &SessionAuthority,
    stream: TcpStream,
    host: &Host,
    no_way: &NoWay,
) -> io::Result<()> {
    let begun = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let offered = offered(&begun.client_hello());
    let chosen = offered.iter().find(|one| *one == HTTP1).or(offered.first()).cloned();
    let is_http2 = chosen.as_deref() == Some(H2);
    let config = authority.config(host, chosen).map_err(io::Error::other)?;
    let client = begun.into_stream(config).await?;
    http::serve_refusal(client, no_way, is_http2).await
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
        let mut rest = stream.take(MOST);
        while rest.read(&mut sink).await? > 0 {}
        Ok(())
    };
    tokio::time::timeout(PATIENCE, drain).await.unwrap_or(Ok(()))
}
