//! What a name stood for when it was last looked up.

use std::fs;
use std::io;
use std::path::PathBuf;

use crate::digest::{is_digest, name_of};
use crate::directories::Places;
use crate::io::AtPath as _;

/// Digests by name, each in a file of its own. One that is lost is looked up again.
#[derive(Debug)]
pub struct Memo(PathBuf);

impl Memo {
    /// Returns those of bases, in the user's cache.
    pub fn of_bases(places: &Places) -> Self {
        Self(places.cache.join("bases/names"))
    }

    /// Returns those of the empty images that containers of root's daemons begin with, by where their
    /// engine is.
    pub fn of_roots_empty_images(places: &Places) -> Self {
        Self(places.cache.join("images/roots-empty"))
    }

    /// Returns the same of daemons that are a user's own.
    pub fn of_users_empty_images(places: &Places) -> Self {
        Self(places.cache.join("images/users-empty"))
    }

    /// Returns what a name stood for.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(name)).ok()?;
        let (known, digest) = text.split_once('\n')?;
        let digest = digest.trim_end();
        (known == name && is_digest(digest)).then(|| digest.to_owned())
    }

    /// Remembers what a name stands for.
    ///
    /// # Errors
    /// Returns the error of writing the file.
    pub fn put(&self, name: &str, digest: &str) -> io::Result<()> {
        let path = self.path(name);
        let new = path.with_extension(format!("new-{}", std::process::id()));
        Places::make_private(&self.0)
            .and_then(|()| fs::write(&new, format!("{name}\n{digest}\n")))
            .and_then(|()| fs::rename(&new, &path))
            .at("write", &path)
    }

    /// Forgets a name.
    pub fn forget(&self, name: &str) {
        // What is not there is forgotten.
        let _ = fs::remove_file(self.path(name));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name_of(name.as_bytes()))
    }
}
