//! Looking for a secret where it must not be.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Returns every file, link target and name below `root` that holds `needle`. Links are not followed.
///
/// # Errors
/// Returns an error for a directory or file that cannot be read: a search that skips is no proof.
pub fn find_bytes_in_tree(root: &Path, needle: &[u8]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(root, needle, &mut found)?;
    Ok(found)
}

fn search(path: &Path, needle: &[u8], found: &mut Vec<PathBuf>) -> io::Result<()> {
    let kind = fs::symlink_metadata(path)?.file_type();
    let in_name = path.file_name().is_some_and(|name| holds(name.as_encoded_bytes(), needle));
    let in_content = if kind.is_symlink() {
        holds(fs::read_link(path)?.as_os_str().as_encoded_bytes(), needle)
    } else if kind.is_file() {
        file_holds(path, needle)?
    } else {
        false
    };
    if in_name || in_content {
        found.push(path.to_owned());
    }
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            search(&entry?.path(), needle, found)?;
        }
    }
    Ok(())
}

fn file_holds(path: &Path, needle: &[u8]) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut window = Vec::new();
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(false);
        }
        window.extend_from_slice(&buffer[..read]);
        if holds(&window, needle) {
            return Ok(true);
        }
        // What is kept is one byte short of a match, so that a match over the seam is found.
        let keep = window.len().min(needle.len().saturating_sub(1));
        window.drain(..window.len() - keep);
    }
}

fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && memmem::find(haystack, needle).is_some()
}
