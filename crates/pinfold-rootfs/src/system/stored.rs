//! Systems that are made from an image of Docker's or Podman's on this machine.
//!
//! Of an image only its files are used, whatever it says of users, entry points, variables, volumes or
//! ports. It is named by the digests of its layers, as the engine says them, and what the engine then
//! saves is unpacked only if it has these.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use data_encoding::HEXLOWER;
use pinfold_engines::image::{Engine, ImageError, Stored};
use pinfold_policy::project::ImageEngine;
use pinfold_snapshot::disk::Disk;
use ring::digest::{Context, SHA256};

use super::{Doing, System, SystemError, Systems};
use crate::unpack::SAVED;

impl Systems<'_> {
    /// Returns the image that an engine has under a name now.
    ///
    /// # Errors
    /// Returns an error if there is no such engine or image, or one that cannot be saved or unpacked.
    pub(super) fn stored(
        &self,
        engine: ImageEngine,
        name: &str,
        asked: &str,
    ) -> Result<System, SystemError> {
        let (engine, image) = self.look_at(engine, name)?;
        self.ensure_tree(&digest(&image.layers), asked, &image.layers, |archives| {
            self.check_room(archives, image.size, asked)?;
            (self.doing)(Doing::Saving);
            let saved = archives.join(SAVED);
            engine.save(&image, &saved).map_err(|error| {
                let is_ours = Disk::of(archives).is_ok_and(|disk| disk.is_short_for(0));
                match error {
                    ImageError::DiskFull { .. } if is_ours => self.disk_full(asked),
                    error => error.into(),
                }
            })?;
            // Engines close it to everybody else, and for root somebody else unpacks it.
            let open = fs::set_permissions(&saved, Permissions::from_mode(0o644));
            open.map_err(|source| SystemError::Path { path: saved, source })
        })
    }

    /// Returns the same, if it has been unpacked already.
    ///
    /// # Errors
    /// Returns an error if there is no such engine or image.
    pub(super) fn find_stored(
        &self,
        engine: ImageEngine,
        name: &str,
    ) -> Result<Option<System>, SystemError> {
        let (_, image) = self.look_at(engine, name)?;
        self.held(&digest(&image.layers))
    }

    fn look_at(&self, engine: ImageEngine, name: &str) -> Result<(Engine, Stored), SystemError> {
        let engine = Engine::find(self.launcher, engine, &self.written)?;
        let image = engine.stored(name)?;
        Ok((engine, image))
    }
}

/// Returns what a tree of these layers is named by: SHA-256 over `pinfold-layers-1` and their digests,
/// each ended by a NUL byte.
fn digest(layers: &[String]) -> String {
    let mut context = Context::new(&SHA256);
    for part in ["pinfold-layers-1"].into_iter().chain(layers.iter().map(String::as_str)) {
        context.update(part.as_bytes());
        context.update(b"\0");
    }
    format!("sha256:{}", HEXLOWER.encode(context.finish().as_ref()))
}
