//! How a server proves who it is.

use std::sync::Arc;

use rustls::ClientConfig;

use super::{Failure, TrustRoots};

/// HTTP/2 in a TLS handshake (RFC 7301, RFC 9113).
pub(crate) const H2: &[u8] = b"h2";
/// HTTP/1.1 in a TLS handshake (RFC 7301).
pub(crate) const HTTP1: &[u8] = b"http/1.1";

/// Returns a client's configuration that trusts these roots and offers no protocol yet.
pub(crate) fn client_config(roots: &TrustRoots) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::Tls(error.to_string()))?;
    Ok(builder.with_root_certificates(roots.load()?).with_no_client_auth())
}
