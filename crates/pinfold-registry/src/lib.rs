//! Images of a container registry (OCI Distribution Specification 1.1), verified by digest.
//!
//! Only what is available without an account. Written here rather than taken from `oci-client`, which
//! brings a second TLS stack and forty crates for four kinds of requests.

mod error;
mod manifest;
mod reference;

use std::fs::File;
use std::path::Path;

use data_encoding::HEXLOWER;
use http::header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{HeaderName, StatusCode};
use pinfold_egress::{Answer, Download, Downloader, Integrity, Progress, percent};
use serde::Deserialize;

pub use error::RegistryError;
pub use manifest::{Image, LayerBlob};
pub use reference::{InvalidReference, Reference};

use self::manifest::Found;

/// The largest manifest that registries have to take (Distribution Specification, "Pushing
/// manifests").
const LARGEST_MANIFEST: u64 = 4 << 20;
/// An index that leads to an index that leads on is an attack.
const DEEPEST: usize = 2;

/// Fetches images.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    downloader: Downloader,
}

/// What was asked for, with what the registry wants to see with every request.
struct Asking<'a> {
    registry: &'a Registry,
    reference: &'a Reference,
    authorization: Option<HeaderValue>,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Registry {
    /// Returns a client that downloads this way.
    #[must_use]
    pub fn new(downloader: Downloader) -> Self {
        Self { downloader }
    }

    /// Finds out what an image consists of on this kind of machine (`amd64`, `arm64`: the values
    /// of Go's GOARCH, as manifests have them). Blocks; must not be called inside an async runtime.
    ///
    /// # Errors
    /// Returns an error for a registry that cannot be reached or does not give the image without an
    /// account; a manifest that is invalid, or not the one that was pinned.
    pub fn resolve(
        &self,
        reference: &Reference,
        architecture: &str,
    ) -> Result<Image, RegistryError> {
        let mut asking = Asking { registry: self, reference, authorization: None };
        let mut wanted = reference.manifest().to_owned();
        for _ in 0..DEEPEST {
            let (bytes, digest) = asking.manifest(&wanted)?;
            match manifest::read(&bytes, architecture)
                .map_err(|what| RegistryError::Manifest { image: reference.to_string(), what })?
            {
                Found::Image(layers) => {
                    let authorization = asking.authorization;
                    return Ok(Image { digest, layers, authorization });
                }
                Found::Index(digest) => wanted = digest,
            }
        }
        Err(RegistryError::Manifest {
            image: reference.to_string(),
            what: "an index leads to an index".to_owned(),
        })
    }

    /// Fetches an image's layers into a directory, each as a file named by its place. Blocks; must
    /// not be called inside an async runtime.
    ///
    /// # Errors
    /// Returns an error for the first layer that is not available or is not what the manifest says.
    pub fn fetch(
        &self,
        reference: &Reference,
        image: &Image,
        into: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(), RegistryError> {
        let mut downloads = Vec::new();
        for (index, layer) in image.layers.iter().enumerate() {
            let path = into.join(layer.file_name(index));
            let file = File::create_new(&path)
                .map_err(|cause| RegistryError::Write { path: path.clone(), cause })?;
            downloads.push(Download {
                url: reference.url("blobs", &layer.digest),
                expect: layer.integrity.clone(),
                max_size: layer.size,
                into: file,
                authorization: image.authorization.clone(),
            });
        }
        Ok(self.downloader.fetch_all(&mut downloads, progress)?)
    }
}

impl Asking<'_> {
    /// Returns a manifest by tag or digest, and the digest of what came.
    fn manifest(&mut self, wanted: &str) -> Result<(Vec<u8>, String), RegistryError> {
        let url = self.reference.url("manifests", wanted);
        let mut answer = self.ask(&url)?;
        if answer.status == StatusCode::UNAUTHORIZED && self.authorization.is_none() {
            self.authorization = Some(self.token(&answer.headers)?);
            answer = self.ask(&url)?;
        }
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => {
                return Err(RegistryError::NoImage { image: self.reference.to_string() });
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                return Err(RegistryError::Account { image: self.reference.to_string() });
            }
            status => {
                let image = self.reference.to_string();
                return Err(RegistryError::Status { image, status });
            }
        }
        let digest = manifest::digest_of(&answer.body);
        if wanted.starts_with("sha256:") && wanted != digest {
            let (image, expected) = (self.reference.to_string(), wanted.to_owned());
            return Err(RegistryError::WrongContent { image, expected, found: digest });
        }
        Ok((answer.body, digest))
    }

    fn ask(&self, url: &str) -> Result<Answer, RegistryError> {
        let mut headers = vec![(ACCEPT, HeaderValue::from_static(manifest::ACCEPTED))];
        headers.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
        self.get(url, headers)
    }

    fn get(
        &self,
        url: &str,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> Result<Answer, RegistryError> {
        Ok(self.registry.downloader.ask(url, headers, LARGEST_MANIFEST)?)
    }

    /// Returns a token for everybody, from where the registry says (RFC 6750; Docker's token
    /// authentication).
    fn token(&self, headers: &HeaderMap) -> Result<HeaderValue, RegistryError> {
        let account = || RegistryError::Account { image: self.reference.to_string() };
        let challenge = headers.get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        let parameters = challenge
            .and_then(|challenge| challenge.strip_prefix("Bearer "))
            .ok_or_else(account)?;
        let parameter = |name: &str| {
            let start = parameters.find(&format!("{name}=\""))? + name.len() + 2;
            parameters[start..].split('"').next()
        };
        let realm = parameter("realm").ok_or_else(account)?;
        // A registry elsewhere has no business with this machine's own ports.
        if !realm.starts_with("https://") && !self.reference.is_local() {
            return Err(account());
        }
        let mut url = realm.to_owned();
        for name in ["service", "scope"] {
            if let Some(value) = parameter(name) {
                url.push(if url.contains('?') { '&' } else { '?' });
                url.push_str(name);
                url.push('=');
                url.push_str(&percent::encoded(value));
            }
        }
        let answer = self.get(&url, Vec::new())?;
        if answer.status != StatusCode::OK {
            return Err(account());
        }
        let token: Token = serde_json::from_slice(&answer.body).map_err(|_| account())?;
        let token = token.token.or(token.access_token).ok_or_else(account)?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| account())?;
        value.set_sensitive(true);
        Ok(value)
    }
}

impl LayerBlob {
    /// Returns the name of the file that holds it: its place, and how it is compressed.
    #[must_use]
    pub fn file_name(&self, index: usize) -> String {
        format!("{index:04}.{}", self.ending)
    }
}

/// Reads the digest of a manifest: `sha256:` and hexadecimal digits.
fn integrity_of(digest: &str) -> Option<Integrity> {
    let digits = digest.strip_prefix("sha256:")?;
    let bytes = HEXLOWER.decode(digits.as_bytes()).ok()?;
    bytes.try_into().ok().map(Integrity::sha256)
}

#[cfg(test)]
mod tests;
