//! Which headers and parameters may pass from one side to the other.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, SET_COOKIE, TE, TRAILER, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderValue};
use memchr::memmem;

use crate::percent;

/// Headers that carry a credential in some API. None of the sandbox's passes.
const CREDENTIALS: [HeaderName; 6] = [
    AUTHORIZATION,
    PROXY_AUTHORIZATION,
    COOKIE,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// Query parameters that carry a credential in some API, in lower case.
const CREDENTIAL_PARAMETERS: [&str; 9] = [
    "key",
    "api_key",
    "api-key",
    "apikey",
    "x-api-key",
    "access_token",
    "auth_token",
    "token",
    "authorization",
];

/// Headers that belong to one connection, not to the message (RFC 9110, 7.6.1), and `Expect`,
/// which the gateway's own server has answered.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];

/// Headers by which some servers take a request for one of another method or path. They are known with
/// `_` for `-` too, because CGI and its successors make no difference.
const OVERRIDES: [&str; 13] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-original-method",
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-rewrite-url",
    "x-rewrite-uri",
    "x-override-url",
    "x-forwarded-uri",
    "x-forwarded-method",
    "x-envoy-original-path",
];

/// Headers that tell a provider whose bill it is, or which of its routes to take.
const ACCOUNTS: [&str; 8] = [
    "openai-organization",
    "openai-project",
    "x-goog-user-project",
    "x-goog-request-params",
    "chatgpt-account-id",
    "anthropic-workspace-id",
    "anthropic-organization-id",
    "forwarded",
];

/// Beginnings of such headers: of proxies, and of gateways that other gateways stand behind.
const ACCOUNT_PREFIXES: [&str; 5] =
    ["x-forwarded-", "x-portkey-", "x-litellm-", "helicone-", "cf-aig-"];

/// Prefix of the WebSocket subprotocol in which browsers send a key to OpenAI.
const KEY_SUBPROTOCOL: &str = "openai-insecure-api-key.";

/// Removes what the message's sender meant for the next hop only.
pub(crate) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        for name in connection_tokens(headers) {
            // A client that could name the length could make one message look like two.
            if name != CONTENT_LENGTH {
                headers.remove(name);
            }
        }
    }
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn connection_tokens(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).into_iter();
    let tokens = values.filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    tokens.filter_map(|token| HeaderName::from_bytes(token.trim().as_bytes()).ok()).collect()
}

/// Removes headers by which a server may take a request for another one.
pub(crate) fn strip_overrides(headers: &mut HeaderMap) {
    remove_if(headers, |name| OVERRIDES.contains(&name));
}

/// Removes what would choose an account or a route of the provider's.
pub(super) fn strip_accounts(headers: &mut HeaderMap) {
    remove_if(headers, is_account);
}

/// Returns whether a header, in lower case, chooses an account or a route.
pub(super) fn is_account(name: &str) -> bool {
    ACCOUNTS.contains(&name) || ACCOUNT_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn remove_if(headers: &mut HeaderMap, is_meant: impl Fn(&str) -> bool) {
    let is_meant = |name: &&HeaderName| match name.as_str() {
        plain if !plain.contains('_') => is_meant(plain),
        odd => is_meant(&odd.replace('_', "-")),
    };
    let named: Vec<HeaderName> = headers.keys().filter(is_meant).cloned().collect();
    for name in named {
        headers.remove(name);
    }
}

/// Removes every credential that the sandbox sent, and what belongs to a signature of AWS's.
pub(super) fn strip_credentials(headers: &mut HeaderMap) {
    remove_if(headers, |name| {
        name.starts_with("x-amz-") || CREDENTIALS.iter().any(|credential| credential == name)
    });
    if headers.contains_key(SEC_WEBSOCKET_PROTOCOL) {
        strip_key_subprotocol(headers);
    }
}

fn strip_key_subprotocol(headers: &mut HeaderMap) {
    let values = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter();
    let kept: Vec<String> = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|protocol| protocol.trim().to_owned())
        .filter(|protocol| !protocol.starts_with(KEY_SUBPROTOCOL))
        .collect();
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let (false, Ok(value)) = (kept.is_empty(), HeaderValue::from_str(&kept.join(", "))) {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}

/// Removes what the upstream must not tell the sandbox: cookies, which would be credentials of the
/// account, and any header that repeats a part of the real one.
pub(super) fn scrub_response(headers: &mut HeaderMap, secrets: &[&str]) {
    headers.remove(SET_COOKIE);
    let echoes = |value: &HeaderValue| {
        secrets.iter().any(|secret| memmem::find(value.as_bytes(), secret.as_bytes()).is_some())
    };
    let named: Vec<HeaderName> =
        headers.iter().filter(|(_, value)| echoes(value)).map(|(name, _)| name.clone()).collect();
    for name in named {
        headers.remove(name);
    }
}

/// Returns the query without parameters that carry a credential; `None` when nothing has to go.
pub(super) fn query_without_credentials(query: &str) -> Option<String> {
    let is_credential = |pair: &&str| {
        let name = pair.split('=').next().unwrap_or(pair);
        let name = percent::decoded(name).to_ascii_lowercase();
        CREDENTIAL_PARAMETERS.contains(&name.as_str())
    };
    if !query.split('&').any(|pair| is_credential(&pair)) {
        return None;
    }
    let kept: Vec<&str> = query.split('&').filter(|pair| !is_credential(pair)).collect();
    Some(kept.join("&"))
}
