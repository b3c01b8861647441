//! Whether something lies in a directory, by whatever name or mount it is reached.
//!
//! A program that a sandbox may have written is not run on the host. Its path does not say where it lies: the same
//! directory may be mounted elsewhere (mount(8), "Bind mounts"), or be found by a name of another case.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::geteuid;

use crate::mount_points::{self, Mount};

/// Names on the way to a file: more than path_resolution(7) goes.
const MOST_STEPS: usize = 4096;

/// Returns whether a file or directory lies in one of these directories. The path has no links. What
/// neither the caller nor, with it, a sandbox may change, counts only if its path says so.
#[must_use]
pub fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    Within::of(roots.to_vec()).has(path)
}

/// Returns whether a path leads into one of these directories, or through a link in one: who may write there decides where
/// it leads. So does what leads nowhere.
#[must_use]
pub fn leads_within(path: &Path, roots: &[PathBuf]) -> bool {
    Within::of(roots.to_vec()).has_on_way(path)
}

/// Directories, and what is known of them once it was needed.
#[derive(Debug)]
pub(crate) struct Within {
    roots: Vec<PathBuf>,
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    /// The directories without links.
    roots: Vec<PathBuf>,
    /// Their devices and inodes.
    ids: Vec<(u64, u64)>,
    /// None if the list cannot be read: then nobody knows where something lies.
    mounts: Option<Vec<Mount>>,
}

impl Within {
    pub(crate) fn of(roots: Vec<PathBuf>) -> Self {
        Self { roots, known: OnceLock::new() }
    }

    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns whether a path without links lies in one of them.
    pub(crate) fn has(&self, path: &Path) -> bool {
        if self.roots.iter().any(|root| path.starts_with(root)) {
            return true;
        }
        if self.roots.is_empty() || !path.ancestors().any(may_change) {
            return false;
        }
        self.known.get_or_init(|| Known::of(&self.roots)).has(path)
    }

    /// Returns whether a path leads into one of them, through a link in one, or nowhere.
    pub(crate) fn has_on_way(&self, path: &Path) -> bool {
        let Ok(real) = fs::canonicalize(path) else { return true };
        let links = steps(path).into_iter().filter(|step| step.is_symlink());
        links.chain([real]).any(|step| self.has(&step))
    }
}

impl Known {
    fn of(roots: &[PathBuf]) -> Self {
        let real = |root: &PathBuf| fs::canonicalize(root).unwrap_or_else(|_| root.clone());
        let ids = roots.iter().filter_map(id).collect();
        let roots = roots.iter().map(real).collect();
        Self { roots, ids, mounts: mount_points::all().ok() }
    }

    fn has(&self, path: &Path) -> bool {
        let Some(mounts) = &self.mounts else { return true };
        let is_mounted_in = |root: &PathBuf| mount_points::is_mounted_in(mounts, path, root);
        path.ancestors().filter_map(id).any(|id| self.ids.contains(&id))
            || self.roots.iter().any(is_mounted_in)
    }
}

/// Returns device and inode of what a path leads to.
fn id(path: impl AsRef<Path>) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Returns whether the caller owns it or may write to it.
fn may_change(path: &Path) -> bool {
    let is_own = fs::symlink_metadata(path).is_ok_and(|found| found.uid() == geteuid().as_raw());
    is_own || accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Returns every name on the way to what a path leads to, links and what they lead to included: who may
/// change one of them decides where it leads.
pub(crate) fn steps(path: &Path) -> Vec<PathBuf> {
    let own = |path: &Path| path.iter().rev().map(OsString::from).collect::<Vec<_>>();
    let (mut waiting, mut at, mut steps) = (own(path), PathBuf::from("/"), Vec::new());
    while let Some(name) = waiting.pop().filter(|_| steps.len() < MOST_STEPS) {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        steps.push(next.clone());
        match fs::read_link(&next) {
            Ok(target) => {
                if target.is_absolute() {
                    at = PathBuf::from("/");
                }
                waiting.extend(own(&target));
            }
            Err(_) => at = next,
        }
    }
    steps
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

    #[test]
    fn path_leads_within_a_directory_by_each_link_on_its_way() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        for name in ["work", "bin"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        fs::write(top.join("bin/tool"), "").unwrap();
        let links = [("bin/tool", "work/tool"), ("work/tool", "bin/by"), ("bin", "work/bin")];
        for (target, link) in links {
            std::os::unix::fs::symlink(top.join(target), top.join(link)).unwrap();
        }
        let roots = [top.join("work")];
        for path in ["work/tool", "bin/by", "work/bin/tool", "work/missing", "missing"] {
            assert!(leads_within(&top.join(path), &roots), "{path}");
        }
        assert!(!leads_within(&top.join("bin/tool"), &roots));
    }
}
