//! Applying an archive to a tree: the layers of images (OCI Image Format Specification 1.1,
//! "Image Layer Filesystem Changeset") and tarballs, which are the same without whiteouts.
//!
//! The archive may be hostile, so this runs inside a boundary.

mod budget;
mod error;
mod open;
mod saved;
mod tree;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::ops::AddAssign;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Entry, EntryType};

pub use budget::{Budget, MOST_ENTRIES};
pub use error::LayerError;
pub use open::open;
pub use saved::apply_saved;

use self::tree::Tree;

/// What was applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Applied {
    /// Entries of the archive.
    pub entries: u64,
    /// Bytes of the regular files.
    pub bytes: u64,
    /// Devices, FIFOs and the like that were left out.
    pub left_out: u64,
}

impl AddAssign for Applied {
    fn add_assign(&mut self, other: Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.left_out += other.left_out;
    }
}

/// A name that takes away what a lower layer has (Image Layer Filesystem Changeset, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
/// The one that takes away everything that lower layers have in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// Applies an archive to the tree at `root`. The budget is shared by all archives of a tree.
///
/// # Errors
/// Returns an error for an archive that is damaged, holds a name that leads out or more than the budget
/// allows, or a tree that cannot be written; the tree is then not to be used.
pub fn apply(archive: impl Read, root: &Path, budget: &mut Budget) -> Result<Applied, LayerError> {
    let tree = Tree::open(root)?;
    let mut layer = Layer { tree, budget, own: BTreeSet::new(), applied: Applied::default() };
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(LayerError::damaged)? {
        layer.entry(entry.map_err(LayerError::damaged)?)?;
    }
    Ok(layer.applied)
}

/// Applies every archive of a directory to the tree at `root`, in the order of their names.
///
/// # Errors
/// Returns the errors of [`apply`], or an error for a directory that cannot be read.
pub fn apply_all(archives: &Path, root: &Path, mut budget: Budget) -> Result<Applied, LayerError> {
    let failed = |source| LayerError::File { path: archives.to_owned(), source };
    let entries = std::fs::read_dir(archives).map_err(failed)?;
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, _>>().map_err(failed)?;
    paths.sort();
    let mut all = Applied::default();
    for path in paths {
        let file =
            File::open(&path).map_err(|source| LayerError::File { path: path.clone(), source })?;
        all += apply(open(file)?, root, &mut budget)?;
    }
    Ok(all)
}

struct Layer<'b> {
    tree: Tree,
    budget: &'b mut Budget,
    /// What this archive has made: no whiteout of its own takes it away.
    own: BTreeSet<PathBuf>,
    applied: Applied,
}

impl Layer<'_> {
    fn entry<R: Read>(&mut self, mut entry: Entry<'_, R>) -> Result<(), LayerError> {
        self.budget.take_entry()?;
        self.applied.entries += 1;
        let name = entry.path_bytes().into_owned();
        let path = beneath(&name)?;
        // The root itself: its mode is ours to choose.
        let Some(file_name) = path.file_name() else { return Ok(()) };
        if let Some(rest) = file_name.as_bytes().strip_prefix(WHITEOUT) {
            let parent = path.parent().unwrap_or(Path::new(""));
            return match file_name.as_bytes() {
                OPAQUE => self.tree.empty(parent, &self.own),
                _ => self.tree.remove(&parent.join(OsStr::from_bytes(rest)), &self.own),
            };
        }
        let mode = entry.header().mode().map_err(LayerError::damaged)? & 0o777;
        match entry.header().entry_type() {
            EntryType::Directory => self.tree.directory(&path, mode)?,
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let mut file = self.tree.file(&path, mode)?;
                self.applied.bytes += self.budget.copy(&mut entry, &mut file, &path)?;
            }
            EntryType::Symlink => self.tree.symlink(&path, &link(&entry)?)?,
            EntryType::Link => self.tree.hard_link(&path, &beneath(&link(&entry)?)?)?,
            EntryType::Char | EntryType::Block | EntryType::Fifo => self.applied.left_out += 1,
            // Global headers and the like say nothing about a file.
            _ => return Ok(()),
        }
        self.own.insert(path);
        Ok(())
    }
}

fn link<R: Read>(entry: &Entry<'_, R>) -> Result<Vec<u8>, LayerError> {
    let target = entry.link_name_bytes().map(|target| target.into_owned());
    target
        .filter(|target| !target.is_empty() && !target.contains(&0))
        .ok_or_else(|| LayerError::refused(&entry.path_bytes(), "which is a link without a target"))
}

/// Returns a name as a path beneath the tree. A slash at its beginning means the tree's root; what
/// climbs is refused.
fn beneath(name: &[u8]) -> Result<PathBuf, LayerError> {
    const LONGEST: usize = 4096;
    if name.len() > LONGEST || name.contains(&0) {
        return Err(LayerError::refused(name, "whose name is too long or has a NUL byte"));
    }
    let mut path = PathBuf::new();
    for component in Path::new(OsStr::from_bytes(name)).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(LayerError::refused(name, "which leads out of the tree"));
            }
        }
    }
    Ok(path)
}
