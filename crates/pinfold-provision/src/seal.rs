//! What comes back from the sandbox is checked and made read-only before it becomes a layer.
//!
//! The unpacker ran on bytes that a stranger sent; if one of them got the better of it, what lies
//! in the tree may be anything. A layer holds plain files, directories and links that stay inside.

use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use crate::unpack::Stats;

/// Why a tree is not made a layer.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// A file could not be read or changed.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// Something that the unpacker never makes.
    #[error("{} {why}; the layer is refused", path.display())]
    Refused {
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Checks everything below `tree` and takes the right to write away.
pub(crate) fn seal(tree: &Path) -> Result<Stats, SealError> {
    let mut stats = Stats::default();
    seal_dir(tree, Path::new(""), &mut stats)?;
    Ok(stats)
}

fn seal_dir(tree: &Path, inside: &Path, stats: &mut Stats) -> Result<(), SealError> {
    let dir = tree.join(inside);
    let fail = |doing| {
        let path = dir.clone();
        move |source| SealError::File { doing, path, source }
    };
    for entry in fs::read_dir(&dir).map_err(fail("read"))? {
        let name = entry.map_err(fail("read"))?.file_name();
        let path = dir.join(&name);
        let found = fs::symlink_metadata(&path).map_err(fail("look at an entry of"))?;
        if found.is_dir() {
            seal_dir(tree, &inside.join(&name), stats)?;
        } else if found.is_symlink() {
            check_link(inside, &path)?;
        } else if found.is_file() {
            seal_file(&path, &found, stats)?;
        } else {
            return Err(SealError::Refused { path, why: "is neither a file nor a directory" });
        }
    }
    fs::set_permissions(&dir, Permissions::from_mode(0o555)).map_err(fail("make read-only"))
}

fn seal_file(path: &Path, found: &Metadata, stats: &mut Stats) -> Result<(), SealError> {
    if found.nlink() != 1 {
        // The other name might be outside of the layer, and writable.
        return Err(SealError::Refused { path: path.to_owned(), why: "has a second name" });
    }
    let mode = if found.mode() & 0o100 != 0 { 0o555 } else { 0o444 };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(|source| SealError::File {
        doing: "make read-only",
        path: path.to_owned(),
        source,
    })?;
    stats.files += 1;
    stats.bytes += found.len();
    Ok(())
}

/// Checks that a link is relative and does not climb above the layer's root.
fn check_link(inside: &Path, path: &Path) -> Result<(), SealError> {
    let target = fs::read_link(path).map_err(|source| SealError::File {
        doing: "read",
        path: path.to_owned(),
        source,
    })?;
    let mut depth = inside.components().count();
    for part in target.components() {
        let next = match part {
            Component::Normal(_) => depth.checked_add(1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = next.ok_or_else(|| SealError::Refused {
            path: path.to_owned(),
            why: "is a link that leaves the layer",
        })?;
    }
    Ok(())
}
