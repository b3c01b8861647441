//! New files in the workspace that a branch or HEAD had at the start.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pinfold_host::beneath::open_directory;
use pinfold_trees::tree::Tree;
use rustix::fs::FileType;

use super::apply::{Expected, Target};
use super::changes::{File, Found};
use super::settle::{Settling, units};

/// Keeps what commits of the start have of a new protected file or directory below a granted root:
/// as new files, so that nothing that is open in another session leads to them. Returns the rest,
/// which is to be set aside; `None` if there is nothing to keep.
pub(crate) fn keep_committed(
    settling: &Settling<'_>,
    root: &Path,
    path: &Path,
) -> Option<BTreeSet<PathBuf>> {
    let committed = settling.repository(path).ok()?.committed(&[path]).ok()?;
    let relative = path.strip_prefix(root).ok()?;
    let tree = Tree::of(open_directory(root).ok()?);
    let node = tree.node(relative).ok()??;
    let found = match node.kind {
        FileType::Directory => Found::below(&tree, relative),
        _ => Found { files: [relative.to_owned()].into(), ..Found::default() },
    };
    if found.is_too_much {
        return None;
    }
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    let target = Target { tree: &tree, owner: node.owner, session: settling.session };
    for file in found.files {
        let read = File::committed(&tree, &file, &committed, &root.join(&file));
        let is_kept =
            read.is_some_and(|read| target.put(&file, &read, Expected::Read(&read)).is_ok());
        let list = if is_kept { &mut kept } else { &mut left };
        list.push(file);
    }
    if kept.is_empty() {
        return None;
    }
    left.extend(found.other);
    // What lies above it was there before.
    let is_old = |above: &Path| relative.starts_with(above);
    Some(units(left.iter(), &kept, is_old).into_iter().map(|path| root.join(path)).collect())
}

/// Paths of which git is asked at most. Others count as new to it.
const MOST_ASKED: usize = 256;

/// Returns which of these files no commit of the start has with this content.
pub(crate) fn uncommitted(
    settling: &Settling<'_>,
    mut paths: BTreeSet<PathBuf>,
) -> BTreeSet<PathBuf> {
    let mut by_top: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for path in paths.iter().take(MOST_ASKED) {
        let around = settling.tops.iter().map(|(top, _)| top).filter(|top| path.starts_with(top));
        if let Some(top) = around.max_by_key(|top| top.as_os_str().len()) {
            by_top.entry(top).or_default().push(path);
        }
    }
    let mut known = BTreeSet::new();
    for (top, paths) in by_top {
        let repository = paths.first().and_then(|path| settling.repository(path).ok());
        let committed = repository.and_then(|it| it.committed(&paths).ok());
        let Some((committed, tree)) = committed.zip(open_directory(top).ok().map(Tree::of)) else {
            continue;
        };
        let is_known = |path: &&&Path| {
            let relative = path.strip_prefix(top).ok();
            relative.is_some_and(|it| File::committed(&tree, it, &committed, path).is_some())
        };
        known.extend(paths.iter().filter(is_known).map(|path| path.to_path_buf()));
    }
    paths.retain(|path| !known.contains(path));
    paths
}
