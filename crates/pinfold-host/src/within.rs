//! Whether something lies in a directory, by whatever name or mount it is reached.
//!
//! A program that a sandbox may have written is not run on the host. Its path does not say where it lies: the same
//! directory may be mounted elsewhere (mount(8), "Bind mounts"), or be found by a name of another case.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use crate::mount_points;

/// Returns whether a file or directory lies in one of these directories. The path has no links. What
/// neither the caller nor, with it, a sandbox may change, counts only if its path says so.
#[must_use]
pub fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    if roots.iter().any(|root| path.starts_with(root)) {
        return true;
    }
    if roots.is_empty() || !path.ancestors().any(may_change) {
        return false;
    }
    let roots: Vec<PathBuf> =
        roots.iter().map(|root| fs::canonicalize(root).unwrap_or_else(|_| root.clone())).collect();
    lies_in_one_of(path, &roots) || is_mounted_in(path, &roots)
}

/// Returns whether the caller owns it or may write to it.
fn may_change(path: &Path) -> bool {
    let is_own = fs::symlink_metadata(path).is_ok_and(|found| found.uid() == geteuid().as_raw());
    is_own || accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Compares what is above the path with the directories, by device and inode.
fn lies_in_one_of(path: &Path, roots: &[PathBuf]) -> bool {
    let id = |found: &Metadata| (found.dev(), found.ino());
    let ids: Vec<_> = roots.iter().filter_map(|root| Some(id(&fs::metadata(root).ok()?))).collect();
    path.ancestors().filter_map(|above| fs::metadata(above).ok()).any(|it| ids.contains(&id(&it)))
}

/// Compares where they lie in their file systems. Without a list of mounts nobody knows.
fn is_mounted_in(path: &Path, roots: &[PathBuf]) -> bool {
    let Ok(mounts) = mount_points::all() else { return true };
    let within = |root: &PathBuf| mount_points::is_mounted_in(&mounts, path, root);
    roots.iter().any(within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_known_by_device_and_inode() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("work/bin")).unwrap();
        fs::create_dir_all(top.join("bin")).unwrap();
        std::os::unix::fs::symlink(top.join("work"), top.join("link")).unwrap();
        let roots = [top.join("link")];
        assert!(is_within(&top.join("work/bin"), &roots));
        assert!(is_within(&top.join("work/bin/missing"), &roots));
        assert!(!is_within(&top.join("bin"), &roots) && !is_within(&top, &roots));
        assert!(!is_within(Path::new("/usr/bin"), &[]));
    }
}
