//! The certificate of the server.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_host::owned;
use pinfold_policy::path::Escaped;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use zeroize::Zeroizing;

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
        let certificates = CertificateDer::pem_slice_iter(&certificates)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| invalid(&self.certificate, error))?;
        let key = PrivateKeyDer::from_pem_slice(&private(&self.key)?)
            .map_err(|error| invalid(&self.key, error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(&self.key, error))?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(|error| invalid(&self.certificate, error))?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

/// Reads a private key, which is of no use if everybody can.
fn private(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsFilesError> {
    const LARGEST: u64 = 1 << 20;
    const OTHERS: u32 = 0o007;
    let file = owned::open(path)?.ok_or_else(|| invalid(path, "there is no such file"))?;
    let mode = file.metadata().map_err(|error| invalid(path, error))?.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(invalid(path, format!("other users can read it (mode {mode:04o})")));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(LARGEST).read_to_end(&mut bytes).map_err(|error| invalid(path, error))?;
    Ok(bytes)
}

fn invalid(path: &Path, reason: impl ToString) -> TlsFilesError {
    TlsFilesError::Invalid { path: path.to_owned(), reason: reason.to_string() }
}
