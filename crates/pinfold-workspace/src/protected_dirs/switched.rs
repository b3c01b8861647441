//! Protected files that git could not change when the sandbox checked out another branch.
//!
//! A mask on a file keeps git from replacing and removing it, so it stays as the branch of the start has
//! it, where HEAD is another one. At the end, when nothing is masked any more, the host gets what its
//! own branch has there, as in a protected directory. What the file held is in a commit of the user's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinfold_git::settled::Settled;
use pinfold_host::beneath::open_directory;
use pinfold_host::file_id::{FileId, Moment};
use pinfold_policy::path::Escaped;
use pinfold_trees::tree::Tree;

use super::Entry;
use super::apply::{Expected, Refused, Target};
use super::changes::File;
use super::settle::Settling;
use crate::git::committed::{Repository, Switched};

/// Has files that were masked follow HEAD, if they are as HEAD had them at the start. `known` is what was
/// masked, and which file it was. Call it when HEAD is where the session has it.
pub(crate) fn settle_files<'k>(
    settling: &Settling<'_>,
    known: impl Iterator<Item = (&'k PathBuf, &'k FileId)>,
    settled: &mut Settled,
) {
    let Some(git) = settling.git else { return };
    let mut by_top: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
    for (path, id) in known {
        let is_same = FileId::of(path).as_ref() == Ok(id);
        let is_file = is_same && path.symlink_metadata().is_ok_and(|found| found.is_file());
        let tops = settling.tops.iter().map(|(top, _)| top.as_path());
        let around = tops.filter(|top| is_file && path.starts_with(top));
        if let Some(top) = around.max_by_key(|top| top.as_os_str().len()) {
            by_top.entry(top).or_default().push(path);
        }
    }
    for paths in by_top.values() {
        let repository = paths
            .first()
            .and_then(|path| Repository::of(path, settling.tops, settling.copies, git));
        let switched = repository.and_then(|repository| repository.switched(paths).ok());
        for switched in switched.into_iter().flatten() {
            // What the host changed at the same moment stays.
            if matches!(follow(settling, &switched), Ok(true)) {
                let path = Escaped(&switched.path);
                settled.taken.push(match switched.now {
                    Some(_) => format!("{path}, as your branches had it"),
                    None => format!("{path} is removed, as in your branches"),
                });
            }
        }
    }
}

/// Returns whether the host has what HEAD has now. A file that is not as HEAD had it at the start stays.
fn follow(settling: &Settling<'_>, switched: &Switched) -> Result<bool, Refused> {
    let Switched { path, before, now } = switched;
    let (Some(above), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
    let tree = Tree::of(open_directory(above)?);
    let name = Path::new(name);
    let Some(node) = tree.node(name)? else { return Ok(false) };
    let moment = Moment::at(tree.root(), name.as_os_str())?;
    let Some(file) = File::read(&tree, name) else { return Ok(false) };
    if !before.has(path, file.kind, &file.bytes) {
        return Ok(false);
    }
    let target = Target { tree: &tree, owner: node.owner, session: settling.session };
    let entry = Entry { host: moment, own: moment, content: file.content() };
    match now {
        Some((kind, bytes)) => {
            let new = File { kind: *kind, bytes: bytes.clone() };
            target.put(name, &new, Expected::Start(&entry))?;
        }
        None => target.remove(name, &entry)?,
    }
    Ok(true)
}
