//! The names that a workspace had when a session started. A file that the layer holds and the
//! workspace does not is new, unless it was there at the start: then somebody has removed it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::survey::Listing;
use pinfold_host::directories::Places;

/// Collects names during the walk over a workspace: for each directory its path and its entries,
/// each ended by NUL, and one NUL more.
#[derive(Debug, Default)]
pub struct Names(Vec<u8>);

impl Names {
    /// Adds a directory.
    pub fn add(&mut self, listing: &Listing) {
        self.0.extend_from_slice(listing.path().as_os_str().as_bytes());
        self.0.push(0);
        for (name, _) in listing.entries() {
            self.0.extend_from_slice(name);
            self.0.push(0);
        }
        self.0.push(0);
    }

    /// Writes them.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub fn write(&self, file: &Path) -> io::Result<()> {
        Places::write_private(file, &self.0)
    }
}

/// Returns the paths that were there at the start; `None` where they were not written, because the start
/// failed on the way.
///
/// # Errors
/// Returns the error of reading.
pub fn read(file: &Path) -> io::Result<Option<HashSet<Vec<u8>>>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut paths = HashSet::new();
    let mut words = bytes.split(|byte| *byte == 0);
    while let Some(directory) = words.next() {
        for name in words.by_ref().take_while(|name| !name.is_empty()) {
            let separator: &[u8] = if directory.is_empty() { b"" } else { b"/" };
            paths.insert([directory, separator, name].concat());
        }
    }
    Ok(Some(paths))
}
