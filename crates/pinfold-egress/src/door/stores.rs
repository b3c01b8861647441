//! Trust stores for programs inside: the host's authorities and the session's.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::mint::SessionAuthority;

/// The stores' files.
pub struct TrustStores {
    /// The session's authority alone (RFC 7468), for programs that add it to their own.
    pub own: String,
    /// All authorities (RFC 7468).
    pub bundle: Vec<u8>,
    /// All authorities as Java's programs read them.
    pub java: Vec<u8>,
}

impl TrustStores {
    /// Adds the session's authority to those of the host, given as they are in its bundle.
    #[must_use]
    pub fn new(authority: &SessionAuthority, host: &[u8]) -> Self {
        let own = authority.pem();
        let bundle = [host, b"\n", own.as_bytes()].concat();
        let parsed = CertificateDer::pem_slice_iter(&bundle);
        // What cannot be read vouches for nobody.
        let certificates: Vec<_> = parsed.filter_map(Result::ok).collect();
        Self { own, java: key_store(&certificates), bundle }
    }
}

/// Returns a Java KeyStore of trusted certificates. The format is described in the comments of OpenJDK's
/// `sun.security.provider.JavaKeyStore`; its password is the one that every Java has by default, and
/// protects nothing.
fn key_store(certificates: &[CertificateDer<'_>]) -> Vec<u8> {
    const MAGIC: u32 = 0xfeed_feed;
    const VERSION: u32 = 2;
    const TRUSTED: u32 = 2;
    let mut store = Vec::new();
    let number = |store: &mut Vec<u8>, number: u32| store.extend(number.to_be_bytes());
    let text = |store: &mut Vec<u8>, text: &str| {
        store.extend((text.len() as u16).to_be_bytes());
        store.extend(text.as_bytes());
    };
    number(&mut store, MAGIC);
    number(&mut store, VERSION);
    number(&mut store, certificates.len() as u32);
    for (index, certificate) in certificates.iter().enumerate() {
        number(&mut store, TRUSTED);
        text(&mut store, &format!("pinfold-{index}"));
        // Milliseconds since 1970 when it was added: nobody asks.
        store.extend(0_u64.to_be_bytes());
        text(&mut store, "X.509");
        number(&mut store, certificate.len() as u32);
        store.extend_from_slice(certificate);
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    let password: Vec<u8> = "changeit".encode_utf16().flat_map(u16::to_be_bytes).collect();
    digest.update(&password);
    digest.update(b"Mighty Aphrodite");
    digest.update(&store);
    store.extend_from_slice(digest.finish().as_ref());
    store
}
