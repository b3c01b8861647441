//! Which authorities vouch for a server.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::Failure;

/// Which authorities vouch for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TrustRoots {
    /// Those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR` where set. They are read
    /// when the first TLS connection is made.
    #[default]
    System,
    /// These and no others, each a certificate in DER form.
    Only(Vec<Vec<u8>>),
}

impl TrustRoots {
    /// Returns the authorities, read.
    ///
    /// # Errors
    /// Returns an error if no certificate is found.
    pub fn store(&self) -> std::io::Result<RootCertStore> {
        self.load().map_err(std::io::Error::other)
    }

    pub(super) fn load(&self) -> Result<RootCertStore, Failure> {
        let (certificates, problem) = match self {
            Self::System => {
                let loaded = rustls_native_certs::load_native_certs();
                let problem = loaded.errors.first().map(|error| format!(" ({error})"));
                (loaded.certs, problem.unwrap_or_default())
            }
            Self::Only(der) => {
                (der.iter().cloned().map(CertificateDer::from).collect(), String::new())
            }
        };
        let mut store = RootCertStore::empty();
        // A system's bundle may hold certificates that rustls does not read; they vouch for
        // nobody then.
        let (added, _ignored) = store.add_parsable_certificates(certificates);
        if added == 0 { Err(Failure::NoRoots(problem)) } else { Ok(store) }
    }
}
