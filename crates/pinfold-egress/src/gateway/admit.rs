//! What a request asks for, and whether this session may.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, HeaderName};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method};

use super::config::{Api, Route, Upstream};
use super::form::Form;
use super::headers::query_without_credentials;
use super::refusal::Refusal;
use super::{CloudPlace, EphemeralKey, cloud};
use crate::percent;

/// Where agents put the key.
const KEY_HEADERS: [HeaderName; 3] = [
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// The name that stands for the gateway where an agent wants one; `.invalid` never resolves
/// (RFC 6761, 6.4).
const GATEWAY_NAME: &str = "gateway.invalid";

/// What an admitted request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The gateway's own state.
    Health,
    /// A provider: the index of its route, and the path there.
    Provider { route: usize, path: PathAndQuery },
}

/// Decides about a request by its head alone. `local` is the address it was received on.
pub(super) fn admit(
    parts: &Parts,
    local: IpAddr,
    keys: &[EphemeralKey],
    routes: &[Route],
) -> Result<Target, Refusal> {
    addressed_to_gateway(parts, local)?;
    let path = parts.uri.path();
    if path == "/health" {
        return Ok(Target::Health);
    }
    if !presented_keys(&parts.headers).any(|key| keys.iter().any(|k| k.matches(key))) {
        return Err(Refusal::BadKey);
    }
    let unknown = || Refusal::UnknownPath { path: path.to_owned() };
    let (route, path) = match path.strip_prefix("/p/") {
        Some(rest) => {
            let (provider, _) = rest.split_once('/').ok_or_else(unknown)?;
            (named_route(provider, routes)?, &rest[provider.len()..])
        }
        None => (0, path),
    };
    if let Some(place) = &routes[route].cloud {
        let path = cloud_path(&routes[route], place, path, parts).ok_or_else(unknown)?;
        return Ok(Target::Provider { route, path });
    }
    let beta = routes[route].api == Api::Gemini && path.starts_with("/v1beta/");
    if !(beta || path.starts_with("/v1/")) || leaves_its_place(path) {
        return Err(unknown());
    }
    let path = upstream_path(&routes[route].upstream, path, parts).ok_or_else(unknown)?;
    Ok(Target::Provider { route, path })
}

/// Returns the form in which a client of this request understands an error.
pub(super) fn form_of(parts: &Parts, refusal: &Refusal, routes: &[Route]) -> Form {
    if matches!(refusal, Refusal::ForeignHost { .. }) {
        return Form::Text;
    }
    let path = parts.uri.path();
    let named = path
        .strip_prefix("/p/")
        .and_then(|rest| rest.split('/').next())
        .and_then(|name| routes.iter().find(|r| r.provider.as_str() == name));
    if let Some(route) = named {
        return Form::Api(route.api);
    }
    if path.starts_with("/v1/messages") || parts.headers.contains_key("anthropic-version") {
        return Form::Api(Api::Anthropic);
    }
    if path.starts_with("/v1beta/") {
        return Form::Api(Api::Gemini);
    }
    let of_openai = ["/v1/chat/", "/v1/responses", "/v1/completions", "/v1/embeddings"];
    if of_openai.iter().any(|prefix| path.starts_with(prefix)) {
        return Form::Api(Api::OpenAi);
    }
    Form::Api(routes[0].api)
}

/// Returns the host a request is for, as its sender sees it.
pub(super) fn host_of(parts: &Parts) -> &str {
    let named = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    parts.uri.authority().map_or(named.unwrap_or_default(), Authority::as_str)
}

/// Refuses what is meant for another server: a proxy's request, a tunnel, a foreign `Host`.
fn addressed_to_gateway(parts: &Parts, local: IpAddr) -> Result<(), Refusal> {
    let foreign = || Refusal::ForeignHost { host: host_of(parts).to_owned() };
    if parts.method == Method::CONNECT || parts.uri.authority().is_some() {
        return Err(foreign());
    }
    let mut hosts = parts.headers.get_all(HOST).into_iter();
    let host = hosts.next().ok_or(Refusal::Malformed("it has no Host"))?;
    if hosts.next().is_some() {
        return Err(Refusal::Malformed("it has more than one Host"));
    }
    let host = Authority::try_from(host.as_bytes())
        .map_err(|_| Refusal::Malformed("its Host is not a host name"))?;
    if is_gateway(host.host(), local) && !host.as_str().contains('@') {
        Ok(())
    } else {
        Err(foreign())
    }
}

fn is_gateway(host: &str, local: IpAddr) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback() || address == local.to_canonical(),
        Err(_) => ["localhost", GATEWAY_NAME].iter().any(|name| bare.eq_ignore_ascii_case(name)),
    }
}

fn presented_keys(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let plain = KEY_HEADERS
        .into_iter()
        .flat_map(|name| headers.get_all(name))
        .map(|value| value.as_bytes());
    // The scheme's name is case-insensitive (RFC 9110, 11.1).
    let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
        let (scheme, key) = value.as_bytes().split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key.trim_ascii())
    });
    plain.chain(bearer)
}

fn named_route(provider: &str, routes: &[Route]) -> Result<usize, Refusal> {
    routes.iter().position(|route| route.provider.as_str() == provider).ok_or_else(|| {
        let known: Vec<&str> = routes.iter().map(|route| route.provider.as_str()).collect();
        Refusal::ForeignProvider { provider: provider.to_owned(), known: known.join(", ") }
    })
}

/// Returns whether a server might read a path as one outside of where it begins: dot segments, however
/// they are written.
fn leaves_its_place(path: &str) -> bool {
    let decoded = percent::decoded(path);
    decoded.split(['/', '\\']).any(|segment| {
        let name = segment.split(';').next().unwrap_or(segment);
        name == "." || name == ".."
    })
}

/// Returns the path of a request to a model of a cloud. `alt=sse` is the one parameter that passes.
fn cloud_path(
    route: &Route,
    place: &CloudPlace,
    path: &str,
    parts: &Parts,
) -> Option<PathAndQuery> {
    let read = match route.api {
        Api::Bedrock => cloud::bedrock(path),
        Api::Vertex => cloud::vertex(path, place),
        Api::Anthropic | Api::OpenAi | Api::Gemini => None,
    };
    let path = read.filter(|_| parts.method == Method::POST)?.path;
    let query = match (route.api, parts.uri.query()) {
        (_, None | Some("")) => "",
        (Api::Vertex, Some("alt=sse" | "%24alt=sse" | "$alt=sse")) => "?alt=sse",
        _ => return None,
    };
    PathAndQuery::try_from(format!("{}{path}{query}", route.upstream.prefix)).ok()
}

fn upstream_path(upstream: &Upstream, path: &str, parts: &Parts) -> Option<PathAndQuery> {
    let prefix = upstream.prefix.as_str();
    let path = if upstream.versioned { path } else { path.strip_prefix("/v1")? };
    let query = parts.uri.query();
    let stripped = query.and_then(query_without_credentials);
    if prefix.is_empty() && stripped.is_none() && path.len() == parts.uri.path().len() {
        return parts.uri.path_and_query().cloned();
    }
    let target = match stripped.as_deref().or(query) {
        None | Some("") => format!("{prefix}{path}"),
        Some(query) => format!("{prefix}{path}?{query}"),
    };
    PathAndQuery::try_from(target).ok()
}
