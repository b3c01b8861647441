//! Whether a layer still holds what its session left in it, once the machine was started again.
//!
//! Nobody waits for a layer to be on the disk: that takes as long as everything else that is to be
//! written there. As long as the machine runs, the kernel has it whole. After a power failure there
//! may be a file without its content, or none at all, while what is known of the session is there.
//! So what it left of each path is written down, and waited for, at the first look after its end.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use pinfold_trees::tree::{Tree, directory_at, is_opaque, node_at};
use rustix::io::Errno;

use super::seen::{Seen, left};

/// Returns a path of which the layer does not hold what the session left, if there is one. What was
/// taken over already is not looked at.
///
/// # Errors
/// Returns the error of reading the layer.
pub(super) fn find_lost(
    upper: &Tree,
    seen: &Seen,
    applied: &BTreeSet<PathBuf>,
) -> Result<Option<PathBuf>, Errno> {
    for (path, expected) in seen.all_left().filter(|(path, _)| !applied.contains(*path)) {
        if left_at(upper, path)?.as_deref() != Some(expected) {
            return Ok(Some(path.to_owned()));
        }
    }
    Ok(None)
}

/// Returns what the layer says of a path; `None` where it says nothing.
fn left_at(upper: &Tree, path: &Path) -> Result<Option<String>, Errno> {
    let mut directory = upper.directory(Path::new(""))?;
    let mut hides_lower = is_opaque(&directory)?;
    let mut names = path.components().peekable();
    while let Some(Component::Normal(name)) = names.next() {
        let node = node_at(&directory, name)?;
        match node {
            None if hides_lower => return Ok(Some(left(None))),
            None => return Ok(None),
            Some(node) if names.peek().is_none() => return Ok(Some(left(Some(&node)))),
            // What is no directory hides what lay below it.
            Some(node) if !node.is_directory() => return Ok(Some(left(None))),
            Some(_) => {}
        }
        directory = directory_at(&directory, name)?;
        hides_lower |= is_opaque(&directory)?;
    }
    Ok(None)
}
