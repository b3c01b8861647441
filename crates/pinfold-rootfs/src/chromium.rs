//! Debian's Chromium in a sandbox that allows no namespaces: it starts without the browser's own sandbox.
//!
//! Debian's `/usr/bin/chromium` sources each file of a directory for flags. That directory's files are granted one
//! by one, so that one more lies next to them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, Place};
use pinfold_policy::path::{InsidePath, PathError};

use crate::system::Stack;

/// The directory of flags.
pub(crate) const DIRECTORY: &str = "/etc/chromium.d";
const SETTINGS: &str = "/etc/chromium.d/pinfold";
const CONTENT: &str = "# The session's sandbox is the wall, and allows no namespaces for Chromium's own (--nested does).\n\
                       export CHROMIUM_FLAGS=\"$CHROMIUM_FLAGS --no-sandbox\"\n";

/// Returns the file with the flag, if the session's system has Debian's Chromium.
///
/// # Errors
/// Returns no error: the path is a constant.
pub fn entry(stack: Option<&Stack>) -> Result<Option<Entry>, PathError> {
    let directory = Path::new(DIRECTORY);
    if !stack.map_or_else(|| directory.is_dir(), |stack| stack.has(directory)) {
        return Ok(None);
    }
    let content = CONTENT.as_bytes().to_vec();
    let place = Place::File { content, mode: 0o644, keep: false };
    Ok(Some(Entry { path: InsidePath::new(SETTINGS)?, place }))
}

/// Returns the files of the host's directory of flags, sorted, without one of the session's file's name.
pub(crate) fn files() -> Vec<PathBuf> {
    let listed = fs::read_dir(DIRECTORY).and_then(|entries| {
        entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()
    });
    // What cannot be listed Chromium cannot source, either.
    let mut files = listed.unwrap_or_default();
    files.retain(|file| file != Path::new(SETTINGS));
    files.sort();
    files
}

/// Returns whether a path inside is the file with the flag.
#[must_use]
pub fn is_settings(path: &Path) -> bool {
    path == Path::new(SETTINGS) && Path::new(DIRECTORY).is_dir()
}
