//! Which addresses are fetched from.

use http::Uri;
use http::uri::Scheme;

use super::DownloadError;
use crate::gateway::is_loopback;

/// Checks an address: https, or http towards this machine itself.
pub(super) fn checked(address: &str) -> Result<Uri, DownloadError> {
    let bad = |reason| DownloadError::BadUrl { url: without_query(address), reason };
    let url: Uri = address.parse().map_err(|_| bad("it is no URL"))?;
    fault(&url).map_or(Ok(url), |reason| Err(bad(reason)))
}

/// Returns where a redirect leads, seen from the address it was found at.
pub(super) fn redirected(from: &Uri, location: &str) -> Result<Uri, DownloadError> {
    let refused =
        |reason| DownloadError::Redirect { url: shown(from), to: without_query(location), reason };
    let location: Uri = location.parse().map_err(|_| refused("which is not a URL"))?;
    let mut parts = location.into_parts();
    if parts.authority.is_none() && parts.scheme.is_none() {
        parts.scheme = from.scheme().cloned();
        parts.authority = from.authority().cloned();
    }
    let to = Uri::from_parts(parts).map_err(|_| refused("which is not a complete URL"))?;
    if fault(&to).is_some() || (is_https(from) && !is_https(&to)) {
        return Err(refused("which is not https"));
    }
    Ok(to)
}

/// Returns the address for messages: without its query, which may be a signature.
pub(super) fn shown(url: &Uri) -> String {
    without_query(&url.to_string())
}

fn fault(url: &Uri) -> Option<&'static str> {
    let Some(authority) = url.authority() else { return Some("it has no host") };
    if authority.as_str().contains('@') {
        return Some("a user name or password does not belong in it");
    }
    let allowed =
        is_https(url) || (url.scheme() == Some(&Scheme::HTTP) && is_loopback(authority.host()));
    if allowed { None } else { Some("it is not https") }
}

fn is_https(url: &Uri) -> bool {
    url.scheme() == Some(&Scheme::HTTPS)
}

/// Leaves out the query, and a password if there is one.
pub(super) fn without_query(address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or(address);
    match address.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => address.to_owned(),
    }
}
