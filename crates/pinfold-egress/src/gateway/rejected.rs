//! Errors of an upstream, as the sandbox may see them: an upstream that refuses a credential may repeat it.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use memchr::memmem;

use super::answer::{Body, own};
use super::headers::{scrub_response, strip_hop_by_hop};

/// Longest error that is passed on, in bytes.
const LONGEST: usize = 256 * 1024;

/// Time for an error to arrive whole.
const LIMIT: Duration = Duration::from_secs(30);

/// What stands in the place of a credential.
const REMOVED: &[u8] = b"[removed by pinfold]";

/// Returns whether an answer is an error, which is held until it is whole.
pub(super) fn is_error(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// Returns an error without what it repeats of the credential. Of one that is too long, slow or
/// compressed only the status passes.
pub(super) async fn without_secrets(
    upstream: Response<Incoming>,
    secrets: &[&str],
) -> Response<Body> {
    let (mut head, body) = upstream.into_parts();
    let is_sealed = head.headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity");
    let body = tokio::time::timeout(LIMIT, Limited::new(body, LONGEST).collect())
        .await
        .ok()
        .and_then(Result::ok)
        .filter(|_| !is_sealed)
        .map_or(Bytes::new(), |body| removed(body.to_bytes(), secrets));
    strip_hop_by_hop(&mut head.headers);
    scrub_response(&mut head.headers, secrets);
    head.headers.remove(CONTENT_LENGTH);
    if body.is_empty() {
        head.headers.remove(CONTENT_ENCODING);
        head.headers.remove(CONTENT_TYPE);
    }
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    own(response)
}

/// Returns a text in which every credential is replaced, also as JSON writes it.
fn removed(body: Bytes, secrets: &[&str]) -> Bytes {
    let mut body = body;
    for secret in secrets {
        let in_json = secret.replace('/', "\\/");
        for form in [*secret, in_json.as_str()] {
            if memmem::find(&body, form.as_bytes()).is_some() {
                body = replaced(&body, form.as_bytes());
            }
        }
    }
    body
}

fn replaced(body: &[u8], secret: &[u8]) -> Bytes {
    let mut replaced = Vec::with_capacity(body.len());
    let mut from = 0;
    for at in memmem::find_iter(body, secret) {
        replaced.extend_from_slice(&body[from..at]);
        replaced.extend_from_slice(REMOVED);
        from = at + secret.len();
    }
    replaced.extend_from_slice(&body[from..]);
    replaced.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_removed_in_each_form() {
        let body = Bytes::from_static(b"a K/1 b K\\/1 c K/1");
        let removed = removed(body, &["K/1"]);
        let expected = "a [removed by pinfold] b [removed by pinfold] c [removed by pinfold]";
        assert_eq!(removed, expected.as_bytes());
    }
}
