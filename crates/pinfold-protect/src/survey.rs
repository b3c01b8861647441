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

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, ResolveFlags};
use rustix::io::Errno;

mod again;
mod facts;
mod listing;
mod saved;
mod seen;
mod walker;

pub use again::walk_changed;
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
