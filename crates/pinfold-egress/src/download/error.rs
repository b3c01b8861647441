//! Everything that can go wrong with a download.

use std::io;

use super::Integrity;

/// Why a file is not available. URLs are shown without their query, which may be a credential.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DownloadError {
    /// An address that nothing is fetched from.
    #[error("cannot download {url}: {reason}")]
    BadUrl {
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The server could not be reached.
    #[error("cannot download {url}: {cause}{hint}")]
    Unreachable {
        url: String,
        /// Which step failed: name, connection, TLS, time.
        cause: String,
        /// What to do about it, or nothing.
        hint: String,
    },
    /// The server has it not, or will not give it.
    #[error("cannot download {url}: the server answers {status}")]
    Status { url: String, status: http::StatusCode },
    /// The server sends the client to where it will not go.
    #[error("cannot download {url}: it redirects to {to}, {reason}")]
    Redirect {
        url: String,
        /// The URL that it leads to.
        to: String,
        /// What is wrong with that.
        reason: &'static str,
    },
    /// There is more of it than expected.
    #[error("cannot download {url}: it is larger than the {max} bytes expected at most")]
    TooLarge {
        url: String,
        /// The limit, in bytes.
        max: u64,
    },
    /// The transfer broke off or stood still.
    #[error("the download of {url} broke off after {received} bytes: {cause}")]
    Interrupted {
        url: String,
        /// Bytes that had come.
        received: u64,
        cause: String,
    },
    /// It is not the file that was expected. What was written must not be used.
    #[error(
        "the download of {url} is not what was expected: it is {actual}, not {expected}; if the \
         file was changed on purpose, update its lock entry"
    )]
    WrongContent {
        url: String,
        /// What it should be.
        expected: Integrity,
        /// What it is.
        actual: Integrity,
    },
    /// The file could not be written.
    #[error("cannot write the download of {url}: {cause}")]
    Write {
        url: String,
        /// What the system says.
        cause: io::Error,
    },
    /// The machinery for downloads could not be started.
    #[error("cannot start a download: {cause}")]
    Start {
        /// What the system says.
        cause: io::Error,
    },
}

impl DownloadError {
    /// Returns whether the same request may well succeed in a moment.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Interrupted { .. } => true,
            Self::Status { status, .. } => status.is_server_error() || status.as_u16() == 429,
            Self::BadUrl { .. }
            | Self::Redirect { .. }
            | Self::TooLarge { .. }
            | Self::WrongContent { .. }
            | Self::Write { .. }
            | Self::Start { .. } => false,
        }
    }
}
