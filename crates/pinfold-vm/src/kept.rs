//! Files of the cache that are made again when they are missing.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// How many are kept of a directory: for some kernels, and executables before an update.
pub(crate) const KEPT: usize = 4;

/// Makes a directory that is closed to others, if it is missing.
///
/// # Errors
/// Returns the error of mkdir(2).
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Removes what was not used for longest, apart from this one. A machine that runs keeps its files.
pub(crate) fn forget_old(directory: &Path, place: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut others: Vec<_> = entries
        .flatten()
        .filter(|entry| entry.path() != place)
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    others.sort_unstable();
    let many = others.len().saturating_sub(KEPT - 1);
    for (_, path) in others.drain(..many) {
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
    }
}
