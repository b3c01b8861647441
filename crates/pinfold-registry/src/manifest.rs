//! Manifests (OCI Image Format Specification 1.1; Docker's second version, which it grew from).

use data_encoding::HEXLOWER;
use http::header::HeaderValue;
use ring::digest::{SHA256, digest};
use serde::Deserialize;

use pinfold_egress::Integrity;

/// The kinds of manifests that are understood.
pub(super) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// More layers than any image that is built by a file of commands has (Docker takes 127).
const MOST_LAYERS: usize = 512;
/// A layer that claims more is refused before it is fetched.
const LARGEST_LAYER: u64 = 16 << 30;

/// What an image consists of.
#[derive(Clone, Debug)]
pub struct Image {
    /// The digest of its manifest, which fixes everything in it.
    pub digest: String,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerBlob>,
    /// What the registry wants to see with requests for them.
    pub(super) authorization: Option<HeaderValue>,
}

/// A layer as it is transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerBlob {
    pub digest: String,
    /// The same, for the download.
    pub(super) integrity: Integrity,
    /// Its length in bytes.
    pub size: u64,
    /// How the name of such an archive ends: `tar`, `tgz` (RFC 1952) or `tzst` (RFC 8878).
    pub ending: &'static str,
}

/// What a manifest is about.
#[derive(Debug)]
pub(super) enum Found {
    /// An image, with its layers.
    Image(Vec<LayerBlob>),
    /// An index; the digest of the manifest for the machine that was asked for.
    Index(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: Option<String>,
    digest: String,
    size: u64,
    platform: Option<Platform>,
}

#[derive(Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// Returns the digest of a manifest's bytes.
pub(super) fn digest_of(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    format!("sha256:{}", HEXLOWER.encode(digest.as_ref()))
}

/// Reads a manifest or an index.
///
/// # Errors
/// Returns in words what is wrong with it.
pub(super) fn read(bytes: &[u8], architecture: &str) -> Result<Found, String> {
    let manifest: Manifest =
        serde_json::from_slice(bytes).map_err(|error| format!("it is not a manifest ({error})"))?;
    match (manifest.layers, manifest.manifests) {
        (Some(layers), None) if layers.len() <= MOST_LAYERS => {
            layers.into_iter().map(layer).collect::<Result<_, _>>().map(Found::Image)
        }
        (Some(_), None) => Err(format!("it has more than {MOST_LAYERS} layers")),
        (None, Some(manifests)) => {
            let fits = |platform: &Platform| {
                platform.os == "linux" && platform.architecture == architecture
            };
            let found = manifests.into_iter().find(|one| one.platform.as_ref().is_some_and(fits));
            let digest = found.ok_or_else(|| format!("it has nothing for linux/{architecture}"))?;
            digest_checked(digest.digest).map(|(digest, _)| Found::Index(digest))
        }
        _ => Err("it has neither layers nor manifests".to_owned()),
    }
}

fn digest_checked(digest: String) -> Result<(String, Integrity), String> {
    match crate::integrity_of(&digest) {
        Some(integrity) => Ok((digest, integrity)),
        None => Err(format!("`{}` is not a sha256 digest", digest.escape_debug())),
    }
}

fn layer(descriptor: Descriptor) -> Result<LayerBlob, String> {
    let kind = descriptor.media_type.unwrap_or_default();
    let ending = match kind.rsplit(['.', '+']).next() {
        Some("gzip") => "tgz",
        Some("zstd") => "tzst",
        Some("tar") => "tar",
        _ => return Err(format!("a layer is of the unknown kind `{}`", kind.escape_debug())),
    };
    if descriptor.size > LARGEST_LAYER {
        return Err(format!("a layer has {} bytes", descriptor.size));
    }
    let (digest, integrity) = digest_checked(descriptor.digest)?;
    Ok(LayerBlob { digest, integrity, size: descriptor.size, ending })
}
