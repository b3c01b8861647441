//! The bodies of the gateway's responses.

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use serde_json::json;

use super::headers::{scrub_response, strip_hop_by_hop};
use super::meter::{Meter, Passed};

/// A body of the gateway's own, or one that streams through.
pub(super) type Body = Either<Full<Bytes>, Passed>;

/// Returns a response that is complete.
pub(super) fn own(response: Response<Full<Bytes>>) -> Response<Body> {
    response.map(Either::Left)
}

/// Returns the response to a request with a body, which says that the connection ends if the body may not have been read: hyper closes
/// such a connection, and a client that is not informed sends its next request into it.
pub(super) fn last_of_connection(mut response: Response<Body>) -> Response<Body> {
    if matches!(response.body(), Either::Left(_)) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Returns the answer to `/health`.
pub(super) fn health() -> Response<Body> {
    let body = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")}).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    own(response)
}

/// Returns an upstream's answer as the sandbox may see it. Its status and headers are taken over, its
/// extensions are not: one of them is the reason phrase, which may hold anything.
pub(super) fn relayed(
    upstream: Response<Incoming>,
    secrets: &[&str],
    meter: Option<Meter>,
) -> Response<Body> {
    let (mut head, body) = upstream.into_parts();
    strip_hop_by_hop(&mut head.headers);
    scrub_response(&mut head.headers, secrets);
    if meter.as_ref().is_some_and(|meter| meter.reader.is_stream()) {
        // It may end before the length it was to have.
        head.headers.remove(CONTENT_LENGTH);
    }
    let mut response = Response::new(Either::Right(Passed::new(body, meter)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}
