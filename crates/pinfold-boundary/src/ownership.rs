//! Giving files of the host to the user of a sandbox.

use std::fs;
use std::io;
use std::path::Path;

use crate::namespace::inside_owner;

/// Gives a directory and all in it to the sandbox's user, if that is not the caller.
///
/// # Errors
/// Returns the errors of [`give`].
pub fn hand_over(path: &Path) -> io::Result<()> {
    match inside_owner() {
        Some(owner) => give(path, owner),
        None => Ok(()),
    }
}

/// Gives a directory and all in it to an owner, following no link.
///
/// # Errors
/// Returns the error of `lchown(2)` or of reading a directory.
pub fn give(path: &Path, (uid, gid): (u32, u32)) -> io::Result<()> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(|error| {
        let what = format!(
            "cannot give {} to the id {uid}, which stands for the sandbox: {error}; in a user \
             namespace that holds root alone, run pinfold as an ordinary user",
            path.display()
        );
        io::Error::new(error.kind(), what)
    })?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give(&entry?.path(), (uid, gid))?;
        }
    }
    Ok(())
}
