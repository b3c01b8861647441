//! Requests and answers as they pass from one connection to the other.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{InvalidUri, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Response, Uri, Version};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pinfold_policy::network::{Endpoint, Host};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::refusal::NoWay;
use super::scrub::{Scrubbed, Scrubber, Unreadable};
use super::shared::Shared;
use super::vault::{Held, Watch};
use crate::gateway::strip_hop_by_hop;

/// The body of an answer: pinfold's own, as it comes, or without what must not pass.
pub(super) type Body = Either<Full<Bytes>, Either<Incoming, Scrubbed<Incoming>>>;

pub(super) fn is_address(asked: &Endpoint) -> bool {
    matches!(asked.host, Host::Address(_))
}

/// Makes the request the next hop's: its target, its host, and nothing meant for this hop.
pub(super) fn rewrite(
    head: &mut Parts,
    asked: &Endpoint,
    secure: bool,
    is_upgrade: bool,
) -> Result<(), NoWay> {
    let (scheme, known) = if secure { (Scheme::HTTPS, 443) } else { (Scheme::HTTP, 80) };
    let malformed = |_| NoWay::Malformed("the request's target");
    let wants_trailers = head.headers.get(TE).is_some_and(|value| value == "trailers");
    strip(&mut head.headers);
    head.headers.remove(PROXY_AUTHORIZATION);
    let path = target(&head.uri).map_err(|_| NoWay::Malformed("the request's target"))?;
    let host = if asked.port == known { asked.host.to_string() } else { asked.to_string() };
    if head.version == Version::HTTP_2 {
        let whole = Uri::builder().scheme(scheme).authority(host).path_and_query(path);
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
    } else if wants_trailers {
        // It belongs to the hop, which answers it (RFC 9110, 10.1.4).
        head.headers.insert(CONNECTION, HeaderValue::from_static("TE"));
        head.headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    Ok(())
}

/// Returns what is asked of the host that a request goes to, which begins with a slash also where nothing, or a
/// query alone, came after the host (RFC 9112, 3.2.1).
fn target(uri: &Uri) -> Result<PathAndQuery, InvalidUri> {
    match uri.path_and_query().map_or("", PathAndQuery::as_str) {
        "" => Ok(PathAndQuery::from_static("/")),
        text if text.starts_with('/') || text == "*" => PathAndQuery::try_from(text),
        text => PathAndQuery::try_from(format!("/{text}")),
    }
}

/// Removes what belongs to one hop. Trailers are carried, so their announcement stays: without it
/// none would be sent in HTTP/1.1.
fn strip(headers: &mut HeaderMap) {
    let announced: Vec<HeaderValue> = headers.get_all(TRAILER).iter().cloned().collect();
    strip_hop_by_hop(headers);
    for names in announced {
        headers.append(TRAILER, names);
    }
}

/// Returns an answer as it passes: status, headers and body, without what must not come back.
pub(super) fn relayed(
    upstream: Response<Incoming>,
    secrets: Vec<Arc<Held>>,
) -> Result<Response<Body>, NoWay> {
    let (mut head, body) = upstream.into_parts();
    let is_coded = head.headers.get_all(TRANSFER_ENCODING).iter().any(|coding| {
        !coding.to_str().is_ok_and(|coding| coding.trim().eq_ignore_ascii_case("chunked"))
    });
    strip(&mut head.headers);
    if secrets.is_empty() {
        return Ok(Response::from_parts(head, Either::Right(Either::Left(body))));
    }
    if is_coded {
        let why = "the server answers in a transfer coding that cannot be searched for secrets";
        return Err(NoWay::Unreachable(why.to_owned()));
    }
    // One of these is the reason phrase, which may hold anything.
    head.extensions.clear();
    // Decoding and scrubbing change the length.
    head.headers.remove(CONTENT_LENGTH);
    let body =
        Scrubbed::new(body, &mut head.headers, Watch::new(secrets)).map_err(|Unreadable| {
            let why = "the server answers in an encoding that cannot be searched for secrets";
            NoWay::Unreachable(why.to_owned())
        })?;
    Ok(Response::from_parts(head, Either::Right(Either::Right(body))))
}

/// Passes a 101 on, then bytes both ways.
pub(super) fn switch(
    shared: &Arc<Shared>,
    client: OnUpgrade,
    upstream: Response<Incoming>,
    asked: Endpoint,
    secrets: Vec<Arc<Held>>,
) -> Response<Body> {
    let shared = Arc::clone(shared);
    let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
    *response.status_mut() = upstream.status();
    *response.headers_mut() = upstream.headers().clone();
    let headers = response.headers_mut();
    strip_hop_by_hop(headers);
    let mut watch = Watch::new(secrets);
    watch.patterns().scrub_headers(headers);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    tokio::spawn(async move {
        let both = tokio::try_join!(client, hyper::upgrade::on(upstream));
        if let Ok((client, upstream)) = both {
            let (mut up_read, mut up_write) = tokio::io::split(TokioIo::new(upstream));
            let (mut down_read, mut down_write) = tokio::io::split(TokioIo::new(client));
            let both_ways = async {
                tokio::try_join!(
                    copy(&mut down_read, &mut up_write, Watch::default()),
                    copy(&mut up_read, &mut down_write, watch),
                )
            };
            // However it ends, both connections are closed and both ends see it.
            tokio::select! {
                _ = both_ways => {}
                () = shared.until_forbidden(&asked) => {}
            }
        }
    });
    response
}

/// Passes bytes one way, without what must not pass.
async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    watch: Watch,
) -> io::Result<()> {
    const BUFFER: usize = 16 * 1024;
    let mut scrubber = Scrubber::new(watch);
    let mut buffer = vec![0; BUFFER];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            to.write_all(&scrubber.finish()).await?;
            return to.shutdown().await;
        }
        to.write_all(&scrubber.push(&buffer[..count])).await?;
        to.flush().await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_begins_with_a_slash() {
        for (asked, expected) in [
            ("http://host", "/"),
            ("http://host#x", "/"),
            ("http://host?x=1#y", "/?x=1"),
            ("http://host/a?b#c", "/a?b"),
            ("/a#b", "/a"),
            ("*", "*"),
        ] {
            let uri: Uri = asked.parse().unwrap();
            // As it goes out: without scheme and host.
            assert_eq!(Uri::from(target(&uri).unwrap()).to_string(), expected, "{asked}");
        }
    }
}
