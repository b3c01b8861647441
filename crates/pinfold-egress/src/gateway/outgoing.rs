//! The headers of a request to an upstream.

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue};

use super::config::AccountHeader;
use super::credential::Ready;
use super::headers::{strip_accounts, strip_credentials, strip_hop_by_hop, strip_overrides};

/// Returns the headers as the upstream sees them, except `Host`: nothing of the sandbox's connection,
/// none of its credentials and accounts, and the real ones last.
pub(super) fn outgoing_headers(
    mut headers: HeaderMap,
    account: &[AccountHeader],
    credential: &Ready,
) -> HeaderMap {
    strip_hop_by_hop(&mut headers);
    strip_credentials(&mut headers);
    strip_overrides(&mut headers);
    strip_accounts(&mut headers);
    for AccountHeader { name, value } in account {
        headers.insert(name, value.clone());
    }
    credential.place(&mut headers);
    // What is compressed could not be counted as it passes.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers
}
