//! Requests that may be sent twice.

use http::Request;
use http_body::Body;

/// Returns a copy of a request, for a reused connection that turns out to have been closed by the
/// server: the request may have been sent, and no answer came.
pub(crate) fn copy_of<B: Body, C>(request: &Request<B>, empty: C) -> Option<Request<C>> {
    if !request.method().is_idempotent() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(empty);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

/// Returns whether a connection broke without an answer; one that cannot be read is an answer.
pub(crate) fn is_silence(error: &hyper::Error) -> bool {
    !error.is_parse() && !error.is_user()
}
