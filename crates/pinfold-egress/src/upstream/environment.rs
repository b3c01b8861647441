//! The proxies and authorities that this host needs, as curl, Node and others find them.

use thiserror::Error;
use zeroize::Zeroizing;

use super::{InvalidProxy, Proxies, TrustRoots, UpstreamProxy, WayOut};

/// A proxy in a variable that cannot be used. Its value may hold a password and is not repeated.
#[derive(Debug, Error)]
#[error("the proxy in ${variable} cannot be used: {source}")]
pub struct UnusableProxy {
    variable: &'static str,
    source: InvalidProxy,
}

impl UnusableProxy {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("set ${0} to another one, or unset it for this run", self.variable)
    }
}

impl WayOut {
    /// Returns how servers are reached from this host, by the environment.
    ///
    /// # Errors
    /// Returns an error for a variable with a proxy that cannot be used.
    pub fn from_environment() -> Result<Self, UnusableProxy> {
        let proxies = Proxies {
            tunnels: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
            requests: proxy(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])?,
        };
        Ok(Self { roots: TrustRoots::of_environment(), proxies })
    }
}

fn set(name: &str) -> Option<Zeroizing<String>> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).map(Zeroizing::new)
}

/// Returns the proxy in the first of these variables that is set.
fn proxy(names: &[&'static str]) -> Result<Option<UpstreamProxy>, UnusableProxy> {
    let Some((variable, value)) = names.iter().find_map(|name| Some((*name, set(name)?))) else {
        return Ok(None);
    };
    let proxy: UpstreamProxy =
        value.parse().map_err(|source| UnusableProxy { variable, source })?;
    let except = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    Ok(Some(proxy.except(&except)))
}
