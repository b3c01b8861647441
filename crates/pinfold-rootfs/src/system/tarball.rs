//! Systems that are made from a tarball.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pinfold_host::digest::digest_of_file;

use super::{System, SystemError, Systems};

impl Systems<'_> {
    /// Returns a tarball.
    ///
    /// # Errors
    /// Returns an error for one that cannot be read, is no archive, or has not the room.
    pub(super) fn tarball(&self, path: &Path) -> Result<System, SystemError> {
        let failed = |source| SystemError::Path { path: path.to_owned(), source };
        let version = version_at(path)?;
        let digest = match self.memo.get(&version) {
            Some(digest) => digest,
            None => digest_of_file(path).map_err(failed)?,
        };
        let from = path.display().to_string();
        let system = self.ensure_tree(&digest, &from, &[], |archives| {
            let copy = archives.join("0000");
            self.check_room(archives, fs::metadata(path).map_err(failed)?.len(), &from)?;
            fs::copy(path, &copy).map_err(failed)?;
            // The name it gets is the content's, whatever the file becomes later.
            if digest_of_file(&copy).map_err(failed)? == digest {
                Ok(())
            } else {
                Err(SystemError::Changing { path: path.to_owned() })
            }
        })?;
        self.memo.put(&version, &digest).map_err(SystemError::Memo)?;
        Ok(system)
    }
}

/// Returns what changes with a tarball's content: to read a large one takes longer than a start may.
pub fn version_of(found: &fs::Metadata) -> String {
    format!(
        "{}:{}:{}:{}.{}:{}.{}",
        found.dev(),
        found.ino(),
        found.size(),
        found.mtime(),
        found.mtime_nsec(),
        found.ctime(),
        found.ctime_nsec()
    )
}

/// Returns what [`version_of`] says of a tarball.
///
/// # Errors
/// Returns an error if it is missing.
pub(super) fn version_at(path: &Path) -> Result<String, SystemError> {
    Ok(version_of(&tarball_at(path)?))
}

fn tarball_at(path: &Path) -> Result<fs::Metadata, SystemError> {
    let found =
        fs::metadata(path).map_err(|source| SystemError::Path { path: path.to_owned(), source })?;
    if found.is_file() {
        Ok(found)
    } else {
        Err(SystemError::NotWhatItSays { path: path.to_owned(), what: "a tarball" })
    }
}
