//! The authority of one session: it vouches, inside that session alone, for hosts whose TLS is
//! ended here.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use pinfold_policy::network::Host;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::crypto::ring::sign::any_ecdsa_type;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

/// Certificates begin this long ago, for clocks that differ.
const BEFORE: Duration = Duration::from_secs(24 * 60 * 60);
/// And end this long from now: no session lives longer.
const AFTER: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Certificates that are kept; those of further hosts are made again each time.
const KEPT: usize = 1024;

/// A host, and the protocol that is spoken with it (RFC 7301).
type Which = (Host, Option<Vec<u8>>);

/// A certificate authority that exists only in this process's memory.
pub struct SessionAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// One key for all hosts: a program that could take it from this memory could take the
    /// authority's.
    leaf: KeyPair,
    made: Mutex<HashMap<Which, Arc<ServerConfig>>>,
}

/// A key or a certificate could not be made: the system gave no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("cannot make the session's certificate authority: {0}")]
pub struct NoAuthority(#[from] rcgen::Error);

impl SessionAuthority {
    /// Returns a new authority. Its name says what it is, for a user who meets it in a list.
    ///
    /// # Errors
    /// Returns [`NoAuthority`].
    pub fn generate() -> Result<Self, NoAuthority> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "pinfold, this session only");
        limit(&mut params);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer, leaf: KeyPair::generate()?, made: Mutex::default() })
    }

    /// Returns its certificate (RFC 7468).
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns its certificate (X.690).
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.issuer.der()
    }

    /// Returns how to be one host and no other, in one protocol.
    pub(super) fn config(
        &self,
        host: &Host,
        protocol: Option<Vec<u8>>,
    ) -> Result<Arc<ServerConfig>, NoAuthority> {
        let mut made = self.made.lock();
        let which = (host.clone(), protocol);
        if let Some(config) = made.get(&which) {
            return Ok(Arc::clone(config));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let mut config = builder
            .with_safe_default_protocol_versions()
            .map_err(|_| rcgen::Error::RingUnspecified)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(self.certify(host)?));
        config.alpn_protocols = which.1.iter().cloned().collect();
        let config = Arc::new(config);
        if made.len() < KEPT {
            made.insert(which, Arc::clone(&config));
        }
        Ok(config)
    }

    fn certify(&self, host: &Host) -> Result<SingleCertAndKey, NoAuthority> {
        let mut params = CertificateParams::new([name(host)])?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        limit(&mut params);
        let certificate = params.signed_by(&self.leaf, &self.issuer)?;
        let pkcs8 = PrivatePkcs8KeyDer::from(self.leaf.serialize_der());
        let key = any_ecdsa_type(&PrivateKeyDer::Pkcs8(pkcs8))
            .map_err(|_| rcgen::Error::CouldNotParseKeyPair)?;
        Ok(CertifiedKey::new(vec![certificate.der().clone()], key).into())
    }
}

fn limit(params: &mut CertificateParams) {
    let now = SystemTime::now();
    params.not_before = (now - BEFORE).into();
    params.not_after = (now + AFTER).into();
}

fn name(host: &Host) -> String {
    match host {
        Host::Name(name) => name.to_string(),
        Host::Address(IpAddr::V4(address)) => address.to_string(),
        Host::Address(IpAddr::V6(address)) => address.to_string(),
    }
}
