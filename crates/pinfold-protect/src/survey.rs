//! Walking over a granted directory, before the command starts and after everything ended.
//!
//! The walk goes by descriptors and follows no link. It remembers when each directory last
//! changed, so that the second walk reads only those that did: the kernel sets a change time
//! itself, and nobody can set it back.
//!
//! A directory that cannot be looked into is never taken for an empty one. The first walk reports
//! it, and the caller masks it. The second walk opens directories of the user's that have been
//! closed since, and looks into them: programs find what they know by name in a directory that
//! cannot be listed. They stay open to their owner.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_host::beneath::join_beneath;
use rustix::fs::{FileType, Mode, ResolveFlags};
use rustix::io::Errno;

mod again;
mod facts;
mod listing;
mod saved;
mod seen;
mod walker;

pub use again::{open_to_owner, walk_changed};
pub use facts::Entries;
use facts::Facts;
pub use listing::Listing;
pub use saved::Tag;
pub use seen::{Obstacle, Unseen, Walk};
pub(crate) use walker::Visit;
use walker::{DIRECTORY, Walker};
pub use walker::{Directory, Visited};

/// Opens a granted directory as the boundary does that mounts it: following no link on the way.
fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(rustix::fs::CWD, root, DIRECTORY, Mode::empty(), how)
}

/// Walks everything beneath `root`. Directories that vanish while it walks are skipped. `cache` is
/// pinfold's own cache, in which it remembers what directories hold; of a directory that is remembered
/// the visitor gets these `entries`.
///
/// # Errors
/// Returns the error of opening or reading a directory.
pub fn walk<Z: Copy>(
    root: &Path,
    zone: Z,
    cache: &Path,
    entries: Entries,
    visit: &mut Visit<'_, Z>,
) -> Result<Walk<Z>, Errno> {
    let root = open_root(root)?;
    let facts = Facts::load(cache, &root, entries);
    let mut walker = Walker::new(visit, facts);
    walker.directory(root, Vec::new(), zone)?;
    walker.facts.store();
    Ok(Walk { seen: walker.seen, unseen: walker.unseen, paths: OnceLock::new() })
}

/// Returns the files below a directory whose inodes may be among these, by number: a number may stand for several. What
/// cannot be looked into is left out.
#[must_use]
pub fn names_of_inodes(root: &Path, cache: &Path, inodes: &HashSet<u64>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let _ = walk(root, (), cache, Entries::All, &mut |visited, (), below| {
        let listing = visited.listing;
        let directory = join_beneath(root, listing.path());
        let named = listing.inodes().filter(|(.., inode)| inodes.contains(inode));
        found.extend(named.map(|(name, ..)| directory.join(OsStr::from_bytes(name))));
        let directories = listing.entries().filter(|(_, kind)| *kind == FileType::Directory);
        below.extend(directories.map(|(name, _)| (name.to_vec(), ())));
    });
    found
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::{Entries, walk};

    /// A directory that is removed between its opening and its reading has no entries to read (`ENOENT`).
    #[test]
    fn directories_that_are_removed_while_they_are_walked_are_skipped() {
        let place = tempfile::tempdir().unwrap();
        let (root, cache) = (place.path().join("root"), place.path().join("cache"));
        fs::create_dir_all(&root).unwrap();
        let is_over = AtomicBool::new(false);
        let walked = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    fs::create_dir_all(root.join("a/b")).unwrap();
                    fs::remove_dir_all(root.join("a")).unwrap();
                }
            });
            let walked = (0..3000).try_for_each(|_| {
                let into_all = &mut |visited: &super::Visited<'_>, (), below: &mut Vec<_>| {
                    below.extend(visited.listing.entries().map(|(name, _)| (name.to_vec(), ())));
                };
                walk(&root, (), &cache, Entries::All, into_all).map(drop)
            });
            is_over.store(true, Ordering::Relaxed);
            walked
        });
        assert_eq!(walked, Ok(()));
    }
}
