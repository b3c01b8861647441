//! The certificate of the server.

use std::path::PathBuf;
use std::sync::Arc;

use pinfold_host::owned;
use pinfold_policy::path::Escaped;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// The files of a certificate and its key, in PEM form.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, then those that vouch for it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

/// Why a certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFilesError {
    /// A file is another user's, or cannot be read.
    #[error(transparent)]
    Owned(#[from] owned::OwnedError),
    /// A file is missing, or does not hold what it should.
    #[error("{}: {reason}", Escaped(.path))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

impl TlsFiles {
    /// Returns what accepts encrypted connections.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, TlsFilesError> {
        let read = |path: &PathBuf| {
            let missing = || invalid(path, "there is no such file");
            owned::read(path)?.ok_or_else(missing)
        };
        let certificates = read(&self.certificate)?;
        let certificates = CertificateDer::pem_slice_iter(&certificates);
        let certificates = certificates
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid(&self.certificate, error))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?);
        let key = key.map_err(|error| invalid(&self.key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&self.key, error))?
            .with_no_client_auth()
            .with_single_cert(certificates, key);
        let config = config.map_err(|error| invalid(&self.certificate, error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn invalid(path: &std::path::Path, reason: impl ToString) -> TlsFilesError {
    TlsFilesError::Invalid { path: path.to_owned(), reason: reason.to_string() }
}
