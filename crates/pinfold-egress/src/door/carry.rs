//! A connection that was admitted: what is spoken on it is looked at once, then bytes pass.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pinfold_policy::network::{Endpoint, Host, HostName, Protocol, Refused};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::explain::{reset, turn_away};
use super::peek::{Beginning, LONGEST, peek};
use super::refusal::NoWay;
use super::shared::Shared;
use super::{http, intercept, join};

/// How long a client may take to say what it speaks where it has to speak first.
const FIRST_WORDS: Duration = Duration::from_secs(30);

/// Carries one connection to its end: until both sides have ended it, it breaks, or the policy no
/// longer allows it.
///
/// # Errors
/// Returns the error that broke it.
pub(super) async fn carry(
    shared: &Arc<Shared>,
    client: TcpStream,
    upstream: Option<TcpStream>,
    asked: Endpoint,
    protocol: Protocol,
) -> io::Result<()> {
    tokio::select! {
        carried = converse(shared, client, upstream, asked.clone(), protocol) => carried,
        () = shared.until_forbidden(&asked) => Ok(()),
    }
}

/// Carries one connection to its end without looking at what is spoken.
///
/// # Errors
/// Returns the error that broke it.
pub(super) async fn pass(
    shared: &Shared,
    client: TcpStream,
    upstream: TcpStream,
    asked: &Endpoint,
) -> io::Result<()> {
    tokio::select! {
        carried = tunnel(client, upstream) => carried,
        () = shared.until_forbidden(asked) => Ok(()),
    }
}

async fn converse(
    shared: &Arc<Shared>,
    client: TcpStream,
    upstream: Option<TcpStream>,
    asked: Endpoint,
    protocol: Protocol,
) -> io::Result<()> {
    let beginning = match protocol {
        Protocol::Tcp if shared.requests_rule(&asked).is_none() => {
            first_words(&client, upstream.as_ref()).await?
        }
        _ => tokio::time::timeout(FIRST_WORDS, first_words(&client, None)).await??,
    };
    let way = match check(shared, &asked, protocol, beginning) {
        Ok(Way::End) => return Ok(()),
        Ok(Way::Http1) => return http::serve_host(shared, client, upstream, asked, false).await,
        Ok(way) => match upstream {
            Some(upstream) => Ok((way, upstream)),
            // A proxy passes on no requests of HTTP/2.
            None => shared.dial(&asked).await.map(|upstream| (way, upstream)),
        },
        Err(no_way) => Err(no_way),
    };
    match way {
        Ok((Way::Tunnel, upstream)) => tunnel(client, upstream).await,
        Ok((Way::Intercept, upstream)) => {
            intercept::intercept(shared, client, upstream, asked).await
        }
        Ok((_, upstream)) => http::serve_host(shared, client, Some(upstream), asked, true).await,
        Err(no_way) => turn_away(shared, client, &asked, &no_way).await,
    }
}

enum Way {
    /// Nothing was asked for.
    End,
    Tunnel,
    Intercept,
    Http1,
    Http2,
}

/// Holds what is spoken against what was allowed.
fn check(
    shared: &Shared,
    asked: &Endpoint,
    protocol: Protocol,
    beginning: Beginning,
) -> Result<Way, NoWay> {
    let expected =
        |expected| shared.refuse(Refused::Protocol { asked: asked.clone(), expected }, None);
    // Requests that cannot be seen cannot be checked against their rule.
    let unseen =
        shared.requests_rule(asked).map(|rule| Refused::Request { asked: asked.clone(), rule });
    match (beginning, protocol, unseen) {
        (Beginning::Tls(name), Protocol::Tls | Protocol::Tcp, _) => {
            check_name(shared, asked, name.as_deref())?;
            Ok(if shared.intercepts(asked) { Way::Intercept } else { Way::Tunnel })
        }
        (Beginning::Http1, Protocol::Http | Protocol::Tcp, _) => Ok(Way::Http1),
        (Beginning::Http2, Protocol::Http | Protocol::Tcp, _) => Ok(Way::Http2),
        (Beginning::Other | Beginning::Unclear, Protocol::Tcp, None) => Ok(Way::Tunnel),
        (Beginning::Other, Protocol::Tcp, Some(refused)) => Err(shared.refuse(refused, None)),
        // A client that ends before it has said what it wants wants nothing.
        (Beginning::Unclear, ..) => Ok(Way::End),
        (Beginning::BrokenTls, ..) => Err(NoWay::Malformed("no sound ClientHello")),
        (_, Protocol::Tls, _) => Err(expected("TLS")),
        (_, Protocol::Http, _) => Err(expected("HTTP")),
    }
}

/// Checks that the server name is the host's. Without one the server answers as who it is; a host that
/// was allowed by address has no name to compare.
fn check_name(shared: &Shared, asked: &Endpoint, name: Option<&str>) -> Result<(), NoWay> {
    let (Host::Name(host), Some(name)) = (&asked.host, name) else { return Ok(()) };
    match name.parse::<HostName>() {
        Ok(said) if said == *host => Ok(()),
        _ => Err(shared.other_name(asked, name)),
    }
}

/// Returns what the client says first; a server that speaks first has decided that it is neither TLS nor
/// HTTP, where the client begins.
pub(super) async fn first_words(
    client: &TcpStream,
    upstream: Option<&TcpStream>,
) -> io::Result<Beginning> {
    let mut buffer = vec![0; LONGEST];
    let mut seen = 0;
    loop {
        let server_first = async {
            match upstream {
                Some(upstream) => upstream.ready(Interest::READABLE).await.map(|_| ()),
                None => std::future::pending().await,
            }
        };
        let length = tokio::select! {
            biased;
            length = peek(client, &mut buffer, seen) => length?,
            ready = server_first => return ready.map(|()| Beginning::Other),
        };
        match Beginning::of(&buffer[..length]) {
            Beginning::Unclear if length == seen || length == LONGEST => {
                return Ok(Beginning::Unclear);
            }
            Beginning::Unclear => seen = length,
            beginning => return Ok(beginning),
        }
    }
}

/// Passes bytes until both sides have ended or one breaks.
async fn tunnel(mut client: TcpStream, mut upstream: TcpStream) -> io::Result<()> {
    let joined = join::join(&mut client, &mut upstream).await;
    if joined.is_err() {
        // The other side sees that it was no orderly end.
        reset(&client)?;
        reset(&upstream)?;
    }
    joined
}
