//! New files in the workspace that a branch or HEAD had at the start.

use std::collections::BTreeSet;
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
