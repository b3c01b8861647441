//! Images to run on, as an engine has them.

use std::ffi::OsString;
use std::path::Path;

use pinfold_policy::project::ImageEngine;

use super::{Engine, ImageError};

/// An image to run on.
#[derive(Debug)]
pub struct Stored {
    /// The engine's own name for exactly this one.
    pub id: String,
    /// The digests of its layers, unpacked, the lowest first (OCI Image Format Specification 1.1,
    /// `rootfs.diff_ids`).
    pub layers: Vec<String>,
    /// Its bytes, unpacked.
    pub size: u64,
}

impl Engine {
    /// Returns an image to run on.
    ///
    /// # Errors
    /// Returns an error for none of this name; an engine that cannot be asked.
    pub fn stored(&self, name: &str) -> Result<Stored, ImageError> {
        let engine = self.name;
        let named = || name.to_owned();
        let found =
            self.look_at(name)?.ok_or_else(|| ImageError::NotStored { engine, name: named() })?;
        let layers = found.root.unwrap_or_default().layers.unwrap_or_default();
        let (id, size) = (found.id, found.size.unwrap_or(0));
        if layers.is_empty() {
            Err(ImageError::Unnamed { engine, name: named() })
        } else {
            Ok(Stored { id, layers, size })
        }
    }

    /// Writes an image to a file, as `docker save` does: a tarball of its layers' tarballs.
    ///
    /// # Errors
    /// Returns why it cannot.
    pub fn save(&self, image: &Stored, into: &Path) -> Result<(), ImageError> {
        let doing = format!("save the image {}", image.id);
        let format: &[&str] = match self.name {
            ImageEngine::Docker => &[],
            ImageEngine::Podman => &["--quiet", "--format=docker-archive"],
        };
        let mut argv = self.argv(["save"].into_iter().chain(format.iter().copied()));
        let mut output = OsString::from("--output=");
        output.push(into);
        argv.extend([output, image.id.clone().into()]);
        self.have(&doing, argv, &|_| {})?.map_err(|said| self.failed(&doing, &said))?;
        if into.is_file() { Ok(()) } else { Err(self.failed(&doing, "it has written nothing")) }
    }
}
