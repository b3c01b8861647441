//! Files that were renamed and not changed.

use std::collections::HashMap;
use std::path::PathBuf;

use pinfold_trees::tree::{Node, Tree};
use rustix::fs::FileType;

use super::changes::{Change, What};
use super::scan::is_same;

/// Finds them: a deleted file holds what a new one holds.
pub(super) fn find_renames(list: &mut [Change], upper: &Tree, lower: &Tree) {
    /// Of the same size; more are not compared.
    const MOST: usize = 16;
    let is_file = |node: &Option<Node>| {
        node.filter(|node| node.kind == FileType::RegularFile && node.size > 0)
    };
    let mut gone: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for change in list.iter().filter(|change| change.what == What::Deleted) {
        if let Some(node) = is_file(&change.before) {
            gone.entry(node.size).or_default().push(change.path.clone());
        }
    }
    for change in list.iter_mut().filter(|change| change.what == What::Added) {
        let Some(node) = is_file(&change.after) else { continue };
        let Some(candidates) = gone.get_mut(&node.size) else { continue };
        let name = change.path.file_name();
        candidates.sort_by_key(|from| from.file_name() != name);
        let holds_the_same = |from: &PathBuf| {
            let files = upper.file(&change.path).ok().zip(lower.file(from).ok());
            files.is_some_and(|(new, old)| is_same(&new, &old, node.size).unwrap_or(false))
        };
        if let Some(at) = candidates.iter().take(MOST).position(holds_the_same) {
            change.renamed_from = Some(candidates.remove(at));
        }
    }
}
