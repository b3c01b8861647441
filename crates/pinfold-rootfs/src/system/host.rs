//! This machine's own system as a base: its programs as they lie there, beneath a tree that holds
//! what else a build needs.
//!
//! The tree has a directory for each of the programs' directories, with the same mode and nothing in
//! it, because the machine's own belong to nobody inside: put over them, they let files be made,
//! replaced and removed. It has copies of what package managers need of /etc and /var
//! (`data/host-pieces.txt`), and users and groups without people.

mod copy;
mod identity;
mod users;

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

pub(super) use identity::{id, is_id};

use crate::userland::{CONFIGURATION, PROGRAMS, is_nested};
use pinfold_host::mount_points;

const PIECES: &str = include_str!("../../data/host-pieces.txt");

/// Directories of /var that programs expect (Filesystem Hierarchy Standard 3.0, 5), and debconf's;
/// with their modes.
const VARIABLE: [(&str, u32); 10] = [
    ("var/cache/debconf", 0o755),
    ("var/lib/misc", 0o755),
    ("var/lib/apt", 0o755),
    ("var/lib/dpkg", 0o755),
    ("var/local", 0o755),
    ("var/log/apt", 0o755),
    ("var/mail", 0o755),
    ("var/opt", 0o755),
    ("var/spool", 0o755),
    ("var/tmp", 0o1777),
];
const VARIABLE_LINKS: [(&str, &str); 2] = [("var/run", "/run"), ("var/lock", "/run/lock")];

/// Paths of /etc and /var that are copied.
fn copied() -> impl Iterator<Item = PathBuf> {
    let lines = PIECES.lines().filter(|line| !line.starts_with('#'));
    let listed = lines.filter_map(|line| line.split_whitespace().next()).map(PathBuf::from);
    CONFIGURATION.iter().map(|name| Path::new("/etc").join(name)).chain(listed)
}

/// Returns a file system that is mounted in a directory of programs, if there is one: overlayfs takes no
/// layer with others in it.
///
/// # Errors
/// Returns the error of reading the list of mounts.
pub(super) fn mounted_within() -> io::Result<Option<PathBuf>> {
    for program in PROGRAMS.map(Path::new) {
        if !is_nested(program)
            && let Some(point) = mount_points::within(program)?
        {
            return Ok(Some(point));
        }
    }
    Ok(None)
}

/// Makes the tree in an empty directory. Reports files of apt's that are left out for their content.
///
/// # Errors
/// Returns the error of reading and writing; what the caller may not read is left out.
pub(super) fn make(tree: &Path) -> io::Result<()> {
    for program in PROGRAMS.map(Path::new) {
        let Ok(found) = fs::symlink_metadata(program) else { continue };
        let place = within(tree, program);
        fs::create_dir_all(place.parent().unwrap_or(tree))?;
        if found.is_symlink() {
            symlink(fs::read_link(program)?, place)?;
        } else if found.is_dir() && !is_nested(program) {
            copy::directories(program, &place, found.dev())?;
        }
    }
    for (name, mode) in VARIABLE {
        let place = tree.join(name);
        fs::create_dir_all(&place)?;
        copy::set_mode(&place, mode)?;
    }
    for (name, target) in VARIABLE_LINKS {
        symlink(target, tree.join(name))?;
    }
    for path in copied() {
        let place = within(tree, &path);
        fs::create_dir_all(place.parent().unwrap_or(tree))?;
        copy::public(&path, &place)?;
    }
    users::make(&tree.join("etc"))
}

fn within(tree: &Path, path: &Path) -> PathBuf {
    tree.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests;
