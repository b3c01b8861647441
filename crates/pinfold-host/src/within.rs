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

use crate::beneath::join_beneath;
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
pub struct Within {
    roots: Vec<PathBuf>,
    known: OnceLock<Known>,
}

#[derive(Debug)]
struct Known {
    /// The directories without links.
    roots: Vec<PathBuf>,
    /// The device and inode of each.
    ids: Vec<Option<(u64, u64)>>,
    /// None if the list cannot be read: then nobody knows where something lies.
    mounts: Option<Vec<Mount>>,
}

impl Within {
    /// Returns these directories. Nothing is read before it is needed.
    #[must_use]
    pub fn of(roots: Vec<PathBuf>) -> Self {
        Self { roots, known: OnceLock::new() }
    }

    pub(crate) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns whether a path without links lies in one of them.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.starts(path) || self.known(path).is_some_and(|known| known.has(path))
    }

    /// Returns by which path in one of them something is reached, too. The path has no links.
    #[must_use]
    pub fn place(&self, path: &Path) -> Option<PathBuf> {
        if self.starts(path) {
            return Some(path.to_owned());
        }
        self.known(path)?.place(path)
    }

    /// Returns the paths in them that a path is followed by: one for each time that it leads in from outside, and one for each
    /// link in them. Who may write there decides where it leads from each on.
    #[must_use]
    pub fn ways(&self, path: &Path) -> Vec<PathBuf> {
        let (mut ways, mut was_in) = (Vec::new(), false);
        for Step { path, rest } in walk(path) {
            let place = self.place(&path);
            let is_way = !was_in || path.is_symlink();
            was_in = place.is_some();
            ways.extend(place.filter(|_| is_way).map(|place| join_beneath(&place, &rest)));
        }
        ways
    }

    fn starts(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// Returns what is known of them, if the path can lie in one.
    fn known(&self, path: &Path) -> Option<&Known> {
        let may_be = !self.roots.is_empty() && path.ancestors().any(may_change);
        may_be.then(|| self.known.get_or_init(|| Known::of(&self.roots)))
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
        let ids = roots.iter().map(id).collect();
        let roots = roots.iter().map(real).collect();
        Self { roots, ids, mounts: mount_points::all().ok() }
    }

    fn has(&self, path: &Path) -> bool {
        let Some(mounts) = &self.mounts else { return true };
        self.by_id(path).is_some()
            || self.roots.iter().any(|root| !mount_points::places_in(mounts, path, root).is_empty())
    }

    /// Returns the path of the same file or directory in one of them. Something else may be mounted where it should be. Without
    /// a list of mounts it is the path itself, as [`Self::has`] says that it may lie in one.
    fn place(&self, path: &Path) -> Option<PathBuf> {
        let mounted = || match &self.mounts {
            Some(mounts) => {
                let all =
                    self.roots.iter().flat_map(|it| mount_points::places_in(mounts, path, it));
                all.into_iter().find(|place| id(place) == id(path))
            }
            None => Some(path.to_owned()),
        };
        self.by_id(path).or_else(mounted)
    }

    /// Returns the path below the directory that it has on its way.
    fn by_id(&self, path: &Path) -> Option<PathBuf> {
        let below = |above: &Path| {
            let above_id = id(above)?;
            let (_, root) =
                self.ids.iter().zip(&self.roots).find(|(id, _)| **id == Some(above_id))?;
            Some(join_beneath(root, path.strip_prefix(above).ok()?))
        };
        path.ancestors().find_map(below)
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

/// A name on the way to a file.
struct Step {
    path: PathBuf,
    /// What of the way is left.
    rest: PathBuf,
}

/// Returns every name on the way to what a path leads to, links and what they lead to included: who may
/// change one of them decides where it leads.
pub(crate) fn steps(path: &Path) -> Vec<PathBuf> {
    walk(path).into_iter().map(|step| step.path).collect()
}

fn walk(path: &Path) -> Vec<Step> {
    let own = |path: &Path| path.iter().rev().map(OsString::from).collect::<Vec<_>>();
    let (mut waiting, mut at, mut steps) = (own(path), PathBuf::from("/"), Vec::new());
    while let Some(name) = waiting.pop().filter(|_| steps.len() < MOST_STEPS) {
        if name == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&name);
        steps.push(Step { path: next.clone(), rest: waiting.iter().rev().collect() });
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
    fn without_a_list_of_mounts_all_that_the_user_may_change_may_lie_there() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, other) = (top.join("work"), top.join("other"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&other).unwrap();
        let within = Within::of(vec![root.clone()]);
        within.known.set(Known { mounts: None, ..Known::of(&within.roots) }).unwrap();
        assert!(within.has(&other));
        assert_eq!(within.place(&other), Some(other.clone()));
        assert_eq!(within.place(&root), Some(root));
        assert!(within.ways(&other).contains(&other));
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
