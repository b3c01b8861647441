//! WebSockets: after the handshake, bytes both ways.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::sync::OwnedSemaphorePermit;

use super::answer::{Body, own};
use super::headers::{scrub_response, strip_hop_by_hop};

/// Returns whether a request opens a WebSocket (RFC 6455, 4.1). No other protocol is upgraded to.
pub(crate) fn wanted(head: &Parts) -> bool {
    head.method == Method::GET
        && head.version == Version::HTTP_11
        && has_token(&head.headers, &UPGRADE, "websocket")
        && has_token(&head.headers, &CONNECTION, "upgrade")
}

fn has_token(headers: &HeaderMap, name: &http::HeaderName, token: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|item| item.trim().eq_ignore_ascii_case(token))
}

/// Passes the upstream's 101 on and joins the two connections once both have changed over.
pub(super) fn join(
    client: OnUpgrade,
    upstream: Response<Incoming>,
    secrets: &[&str],
    permit: Arc<OwnedSemaphorePermit>,
) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = upstream.status();
    *response.headers_mut() = upstream.headers().clone();
    let headers = response.headers_mut();
    strip_hop_by_hop(headers);
    scrub_response(headers, secrets);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    tokio::spawn(async move {
        let both = tokio::try_join!(client, hyper::upgrade::on(upstream));
        if let Ok((client, upstream)) = both {
            let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
            // However it ends, both ends are closed and see it.
            let _ = copy_bidirectional(&mut client, &mut upstream).await;
        }
        drop(permit);
    });
    own(response)
}
