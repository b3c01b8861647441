//! Why a server could not be reached.

use std::error::Error;

/// Why there is no connection to a server, in words for the user at the other end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The name gave no address.
    #[error("dns: cannot resolve {name}: {cause}")]
    Dns {
        name: String,
        /// What the resolver says.
        cause: String,
        /// Whether it says that the name does not exist, or no address to it.
        missing: bool,
    },
    /// No address answered.
    #[error("connect: {0}")]
    Connect(String),
    /// The server is not who it should be, or speaks no TLS.
    #[error("tls: {0}")]
    Tls(String),
    /// No authority is trusted at all.
    #[error(
        "tls: no trusted certificates were found; install ca-certificates or set SSL_CERT_FILE{0}"
    )]
    NoRoots(String),
    /// All of it took too long.
    #[error("timeout: no connection within {0} seconds")]
    Timeout(u64),
}

impl Failure {
    /// Returns whether the name does not exist, as opposed to an answer that did not come.
    pub(crate) fn is_no_such_name(&self) -> bool {
        matches!(self, Self::Dns { missing: true, .. })
    }

    /// Returns the failure behind an error of the HTTP client, if a connection was what failed.
    #[must_use]
    pub fn behind<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        chain(error).find_map(|cause| cause.downcast_ref())
    }

    /// Returns the innermost cause of an error: the words of the system or of the protocol.
    #[must_use]
    pub fn innermost(error: &(dyn Error + 'static)) -> String {
        chain(error).last().map_or_else(|| error.to_string(), ToString::to_string)
    }
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}
