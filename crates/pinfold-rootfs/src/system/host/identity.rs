//! What identifies a version of this machine's system.
//!
//! SHA-256 over `pinfold-host-2` and, for each thing, its path, mode, size and time of change of its
//! content: directories of programs two levels deep (and one more below /usr/local), what is copied of
//! /etc with all that is in it, and what is copied of /var one level deep, which has the package
//! manager's database. Of links there are only the directories' times. What
//! changes deeper is not noticed; a package manager's work is.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};

use super::copied;
use crate::userland::PROGRAMS;

const PREFIX: &str = "host-";

/// Returns whether an id is of some version of a machine's own system.
pub(in crate::system) fn is_id(id: &str) -> bool {
    id.starts_with(PREFIX)
}

/// Returns the id of the system as it is now.
///
/// # Errors
/// Returns no error on a system whose own directories can be read.
pub(in crate::system) fn id() -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    context.update(b"pinfold-host-2");
    for program in PROGRAMS.map(Path::new) {
        take(program, 1, true, &mut context)?;
    }
    take(Path::new("/usr/local"), 2, true, &mut context)?;
    for path in copied() {
        let depth = if path.starts_with("/etc") { u32::MAX } else { 1 };
        take(&path, depth, false, &mut context)?;
    }
    for file in ["/etc/passwd", "/etc/group"] {
        take(Path::new(file), 0, false, &mut context)?;
    }
    Ok(format!("{PREFIX}{}", HEXLOWER.encode(context.finish().as_ref())))
}

/// Takes in what lies at a path and, to a depth, what lies below it.
pub(super) fn take(
    path: &Path,
    depth: u32,
    directories: bool,
    context: &mut Context,
) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let (mode, size) = (found.mode(), found.size());
    let stamp = format!("\0{mode}:{size}:{}.{}\0", found.mtime(), found.mtime_nsec());
    context.update(path.as_os_str().as_bytes());
    context.update(stamp.as_bytes());
    // What the caller cannot list is not copied either.
    let (true, Some(depth), Ok(entries)) =
        (found.is_dir(), depth.checked_sub(1), fs::read_dir(path))
    else {
        return Ok(());
    };
    let mut below = Vec::new();
    for entry in entries {
        let entry = entry?;
        let kind = entry.file_type()?;
        // A link cannot be changed but by a new one, which changes its directory's time.
        if kind.is_dir() || (!directories && !kind.is_symlink()) {
            below.push(entry.file_name());
        }
    }
    below.sort_unstable();
    below.iter().try_for_each(|name| take(&path.join(name), depth, directories, context))
}
