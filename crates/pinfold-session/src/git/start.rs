//! What a repository held when a session in `git = quarantine` started: what the inside deleted is
//! told from what the host made meanwhile.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::read::{open_directory, read_bounded};
use super::refs::is_component;

/// References, HEADs and stashes by name. Of a repository that keeps its references in tables
/// (`reftable`) nothing is known, so nothing is said of deletions in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Start {
    /// What the HEAD of each worktree holds.
    heads: HashMap<String, String>,
    loose: HashSet<String>,
    packed: String,
    stash: String,
}

/// Packed references of more bytes are not read; one takes some sixty.
const LARGEST: u64 = 256 << 20;

impl Start {
    /// Reads a copy that was made just now, in which nothing has run yet. A repository may hold
    /// links to anywhere: what is no regular file is not known.
    pub(crate) fn read(copy: &Path) -> Self {
        let content = |path: &str| {
            let directory = open_directory(copy).ok()?;
            let content = read_bounded(directory, Path::new(path), LARGEST).ok()??;
            Some(String::from_utf8_lossy(&content.bytes).into_owned())
        };
        let worktrees = fs::read_dir(copy.join("worktrees")).into_iter().flatten().flatten();
        let ids = worktrees.filter_map(|entry| entry.file_name().into_string().ok());
        let heads = ids.map(|id| format!("worktrees/{id}/HEAD")).chain(["HEAD".to_owned()]);
        let mut start = Self {
            heads: heads.filter_map(|head| content(&head).map(|content| (head, content))).collect(),
            loose: HashSet::new(),
            packed: content("packed-refs").unwrap_or_default(),
            stash: content("logs/refs/stash").unwrap_or_default(),
        };
        start.names(copy, "refs");
        start
    }

    fn names(&mut self, copy: &Path, directory: &str) {
        for entry in fs::read_dir(copy.join(directory)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| is_component(name)) else { continue };
            let name = format!("{directory}/{name}");
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.names(copy, &name);
            } else {
                self.loose.insert(name);
            }
        }
    }

    /// Whether this HEAD holds what it held.
    pub(crate) fn had_head(&self, head: &str, now: &[u8]) -> bool {
        self.heads.get(head).is_some_and(|was| *was == String::from_utf8_lossy(now))
    }

    /// Those of these names that were there.
    pub(crate) fn had<'n>(&self, names: impl Iterator<Item = &'n String>) -> Vec<&'n String> {
        let packed: HashSet<&str> = self.packed.lines().filter_map(|line| word(line, 1)).collect();
        let was_there =
            |name: &&String| self.loose.contains(*name) || packed.contains(name.as_str());
        names.filter(was_there).collect()
    }

    /// Whether this commit was an entry of the stash.
    pub(crate) fn had_stash(&self, commit: &str) -> bool {
        self.stash.lines().any(|line| word(line, 1) == Some(commit))
    }
}

fn word(line: &str, number: usize) -> Option<&str> {
    line.split(' ').nth(number)
}
