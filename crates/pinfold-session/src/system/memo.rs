//! What a name stood for when it was last looked up.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinfold_egress::Integrity;
use pinfold_host::digest::{Hex, name_of};
use pinfold_host::directories::Places;
use ring::digest::{Context, SHA256};

use super::SystemError;

/// Digests by name, each in a file of its own. One that is lost is looked up again.
#[derive(Debug)]
pub(crate) struct Memo(PathBuf);

impl Memo {
    /// Those of bases, in the user's cache.
    pub(crate) fn of_bases(places: &Places) -> Self {
        Self(places.cache.join("bases/names"))
    }

    /// Those of the empty images that containers of root's daemons begin with, by where their engine is.
    pub(crate) fn of_roots_empty_images(places: &Places) -> Self {
        Self(places.cache.join("images/roots-empty"))
    }

    /// The same of daemons that are a user's own.
    pub(crate) fn of_users_empty_images(places: &Places) -> Self {
        Self(places.cache.join("images/users-empty"))
    }

    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        let (known, digest) = text.split_once('\n')?;
        let digest = digest.trim_end();
        (known == name && Integrity::of_oci(digest).is_some()).then(|| digest.to_owned())
    }

    pub(crate) fn put(&self, name: &str, digest: &str) -> Result<(), SystemError> {
        let path = self.path(name);
        let new = path.with_extension(format!("new-{}", std::process::id()));
        Places::make_private(&self.0)
            .and_then(|()| fs::write(&new, format!("{name}\n{digest}\n")))
            .and_then(|()| fs::rename(&new, &path))
            .map_err(|source| SystemError::Memo { path, source })
    }

    pub(crate) fn forget(&self, name: &str) {
        // What is not there is forgotten.
        let _ = fs::remove_file(self.path(name));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name_of(name.as_bytes()))
    }
}

/// The digest of a file's content.
///
/// # Errors
/// What reading says.
pub(crate) fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(format!("sha256:{}", Hex(context.finish().as_ref()))),
            count => context.update(&buffer[..count]),
        }
    }
}
