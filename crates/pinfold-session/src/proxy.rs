//! The proxies that this host needs, as curl and others find them.

use pinfold_egress::{Proxies, TrustRoots, UpstreamProxy, WayOut};

use zeroize::Zeroizing;

use crate::RunError;

/// How servers are reached from this host.
///
/// # Errors
/// A proxy that cannot be used. Its value may hold a password and is not repeated.
pub(crate) fn way_out() -> Result<WayOut, RunError> {
    let proxies = Proxies {
        tunnels: proxy(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"])?,
        requests: proxy(&["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"])?,
    };
    Ok(WayOut { roots: TrustRoots::System, proxies })
}

fn set(name: &str) -> Option<Zeroizing<String>> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).map(Zeroizing::new)
}

/// The proxy in the first of these variables that is set.
fn proxy(names: &[&str]) -> Result<Option<UpstreamProxy>, RunError> {
    let Some((name, value)) = names.iter().find_map(|name| Some((name, set(name)?))) else {
        return Ok(None);
    };
    let proxy: UpstreamProxy = value.parse().map_err(|error| {
        RunError::refused(
            format!("the proxy in ${name} cannot be used: {error}"),
            Some(format!("set ${name} to another one, or unset it for this run")),
        )
    })?;
    let except = set("no_proxy").or_else(|| set("NO_PROXY")).unwrap_or_default();
    Ok(Some(proxy.except(&except)))
}
