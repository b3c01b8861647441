//! Putting secrets into requests, where their placeholders stand.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use memchr::memmem;
use pinfold_policy::network::{Endpoint, Repository, Spots};
use zeroize::Zeroizing;

use super::refusal::NoWay;
use super::vault::Held;
use crate::held::{HeldBody, HeldBytes};
use crate::percent;

/// A request's body, as it is or with secrets in it.
pub(super) type RequestBody = Either<Full<Bytes>, Incoming>;

/// The largest JSON body that is looked into, in bytes.
const LARGEST_BODY: usize = 4 * 1024 * 1024;

/// How much larger it may become by the secrets in it.
const LARGEST_GROWTH: usize = 1024 * 1024;

/// Holds a request's body until it is whole, if the placeholder of one of these secrets may stand in
/// it.
pub(super) async fn held_body(
    secrets: &[Arc<Held>],
    head: &Parts,
    body: Incoming,
    memory: &HeldBytes,
) -> Result<Either<HeldBody, Incoming>, NoWay> {
    let is_wanted = |held: &Arc<Held>| held.rule.spots.contains(Spots::BODY_JSON);
    if !secrets.iter().any(is_wanted) || !is_json(&head.headers) {
        return Ok(Either::Right(body));
    }
    memory.collect(body, LARGEST_BODY).await.map(Either::Left).map_err(NoWay::NotHeld)
}

/// Puts one secret in: for its placeholder wherever that may stand, or into requests of git's if it
/// is for these alone. `body` is one that is held. Says whether it was put in anywhere.
pub(super) async fn place(
    held: &Arc<Held>,
    asked: &Endpoint,
    head: &mut Parts,
    body: Option<&mut Vec<u8>>,
) -> Result<bool, NoWay> {
    if let Some(repositories) = &held.git {
        let used = is_gits(repositories, asked, head);
        if used {
            log_in(held, head).await?;
        }
        return Ok(used);
    }
    let spots = held.rule.spots;
    let placeholder = held.placeholder.as_str();
    let body = body.filter(|_| spots.contains(Spots::BODY_JSON));
    let found = Found::in_request(head, body.as_deref(), placeholder, spots);
    if !found.any() {
        return Ok(false);
    }
    let id = &held.rule.id;
    let value = held.value().await.map_err(|_| NoWay::NoSecret(id.clone()))?;
    let value = value.expose();
    let unusable = || NoWay::NoSecret(id.clone());
    if found.header || found.basic {
        for (name, header) in head.headers.iter_mut() {
            let spots = if *name == AUTHORIZATION { spots } else { spots.difference(Spots::BASIC) };
            if let Some(replaced) = in_header(header, placeholder, value, spots) {
                let mut replaced = HeaderValue::from_bytes(&replaced).map_err(|_| unusable())?;
                replaced.set_sensitive(true);
                *header = replaced;
            }
        }
    }
    if found.query {
        let target = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = query.replace(placeholder, &percent::encoded(value));
        let target = PathAndQuery::try_from(format!("{path}?{query}")).map_err(|_| unusable())?;
        let mut parts = std::mem::take(&mut head.uri).into_parts();
        parts.path_and_query = Some(target);
        head.uri = http::Uri::from_parts(parts).map_err(|_| unusable())?;
    }
    if let Some(body) = body.filter(|_| found.body) {
        let escaped = serde_json::Value::from(value).to_string();
        let escaped = escaped.get(1..escaped.len() - 1).unwrap_or_default();
        let replaced = replace(body, placeholder.as_bytes(), escaped.as_bytes());
        if replaced.len() > LARGEST_BODY.saturating_add(LARGEST_GROWTH) {
            return Err(NoWay::Malformed("a JSON body holds a placeholder too often"));
        }
        if head.headers.contains_key(CONTENT_LENGTH) {
            head.headers.insert(CONTENT_LENGTH, replaced.len().into());
        }
        *body = replaced;
    }
    Ok(true)
}

/// Returns whether a request is git's, for one of these.
fn is_gits(repositories: &[Repository], asked: &Endpoint, head: &Parts) -> bool {
    let (method, path, query) = (head.method.as_str(), head.uri.path(), head.uri.query());
    Repository::is_at(asked)
        && repositories.iter().any(|repository| repository.is_asked_for(method, path, query))
}

/// Adds the login of the account that the request names.
async fn log_in(held: &Arc<Held>, head: &mut Parts) -> Result<(), NoWay> {
    let missing = || NoWay::NoSecret(held.rule.id.clone());
    let value = held.value().await.map_err(|_| missing())?;
    let pair = Zeroizing::new(format!("{}:{}", Repository::USER, value.expose()));
    let header = format!("Basic {}", STANDARD.encode(pair.as_bytes()));
    let mut header = HeaderValue::try_from(header).map_err(|_| missing())?;
    header.set_sensitive(true);
    head.headers.insert(AUTHORIZATION, header);
    Ok(())
}

/// Where a placeholder stands and may be replaced.
#[derive(Default)]
struct Found {
    header: bool,
    basic: bool,
    query: bool,
    body: bool,
}

impl Found {
    fn in_request(head: &Parts, body: Option<&Vec<u8>>, placeholder: &str, spots: Spots) -> Self {
        let needle = placeholder.as_bytes();
        let mut found = Self::default();
        for value in head.headers.values() {
            found.header |=
                spots.contains(Spots::HEADER) && memmem::find(value.as_bytes(), needle).is_some();
        }
        for value in head.headers.get_all(AUTHORIZATION) {
            found.basic |= spots.contains(Spots::BASIC)
                && decoded_basic(value).is_some_and(|pair| memmem::find(&pair, needle).is_some());
        }
        let query = head.uri.query().unwrap_or_default();
        found.query = spots.contains(Spots::QUERY) && query.contains(placeholder);
        found.body = body.is_some_and(|bytes| memmem::find(bytes, needle).is_some());
        found
    }

    fn any(&self) -> bool {
        self.header || self.basic || self.query || self.body
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let json = kind.eq_ignore_ascii_case("application/json") || kind.ends_with("+json");
    json && !headers.contains_key(CONTENT_ENCODING)
}

/// Returns a header's value with the secret in it, if the placeholder stands there.
fn in_header(
    header: &HeaderValue,
    placeholder: &str,
    value: &str,
    spots: Spots,
) -> Option<Vec<u8>> {
    let needle = placeholder.as_bytes();
    if spots.contains(Spots::HEADER) && memmem::find(header.as_bytes(), needle).is_some() {
        return Some(replace(header.as_bytes(), needle, value.as_bytes()));
    }
    let pair = decoded_basic(header).filter(|_| spots.contains(Spots::BASIC))?;
    memmem::find(&pair, needle)?;
    let replaced = replace(&pair, needle, value.as_bytes());
    Some(format!("Basic {}", STANDARD.encode(replaced)).into_bytes())
}

/// Decodes user and password of `Basic` (RFC 7617).
fn decoded_basic(header: &HeaderValue) -> Option<Vec<u8>> {
    let (scheme, coded) = header.to_str().ok()?.split_once(' ')?;
    let coded = Some(coded.trim()).filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    STANDARD.decode(coded).ok()
}

fn replace(bytes: &[u8], needle: &[u8], by: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(bytes.len() + by.len());
    let mut from = 0;
    while let Some(at) = memmem::find(&bytes[from..], needle) {
        replaced.extend_from_slice(&bytes[from..from + at]);
        replaced.extend_from_slice(by);
        from += at + needle.len();
    }
    replaced.extend_from_slice(&bytes[from..]);
    replaced
}
