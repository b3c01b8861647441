//! What a repository held when a session started: tells what the session deleted from what the
//! host made since.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::dropped::Settings;
use super::read::{open_directory, read_bounded};
use super::refs::{Head, Refs, is_component, is_name, is_object, is_remote, parse_refs};

/// References, HEADs and stashes by name. Of a repository that keeps its references in tables
/// (`reftable`) nothing is known, so nothing is said of deletions in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Start {
    /// What the HEAD of each worktree holds.
    heads: HashMap<String, String>,
    loose: HashMap<String, String>,
    packed: String,
    stash: String,
    #[serde(default)]
    settings: Settings,
}

/// Packed references of more bytes are not read; one takes some sixty.
const LARGEST: u64 = 256 << 20;
/// Bytes of a file that holds one reference.
const LONGEST_REFERENCE: u64 = 4096;

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
            loose: HashMap::new(),
            packed: content("packed-refs").unwrap_or_default(),
            stash: content("logs/refs/stash").unwrap_or_default(),
            settings: Settings::read(copy),
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
                let content = open_directory(copy).ok().and_then(|opened| {
                    read_bounded(opened, Path::new(&name), LONGEST_REFERENCE).ok()?
                });
                let content = content.map(|content| content.bytes).unwrap_or_default();
                let value = String::from_utf8_lossy(&content).trim().to_owned();
                self.loose.insert(name, value);
            }
        }
    }

    /// The references with the objects that they name. A symbolic one is left out.
    pub(crate) fn refs(&self) -> Refs {
        let mut refs = parse_refs(&self.packed);
        for (name, value) in self.loose.iter().filter(|(name, _)| is_name(name)) {
            match is_object(value) {
                true => refs.insert(name.clone(), value.clone()),
                false => refs.remove(name),
            };
        }
        refs
    }

    /// The same of remote-tracking branches.
    pub(crate) fn remotes(&self) -> Refs {
        let packed = self.packed.lines().filter_map(|line| line.split_once(' '));
        let packed = packed.filter(|(object, name)| is_object(object) && is_remote(name));
        let mut remotes: Refs =
            packed.map(|(object, name)| (name.to_owned(), object.to_owned())).collect();
        for (name, value) in self.loose.iter().filter(|(name, _)| is_remote(name)) {
            match is_object(value) {
                true => remotes.insert(name.clone(), value.clone()),
                false => remotes.remove(name),
            };
        }
        remotes
    }

    /// What a HEAD held: the branch, or the commit.
    pub(crate) fn head(&self, name: &str) -> Option<Head> {
        let content = self.heads.get(name)?.trim();
        let branch = content.strip_prefix("ref: ").map(str::to_owned);
        let refs = self.refs();
        let commit = match &branch {
            Some(branch) => refs.get(branch).cloned(),
            None => Some(content.to_owned()).filter(|commit| is_object(commit)),
        };
        Some(Head { branch, commit })
    }

    /// Whether references, HEADs and stashes are the same.
    pub(crate) fn names_the_same(&self, other: &Self) -> bool {
        (&self.heads, &self.loose, &self.packed, &self.stash)
            == (&other.heads, &other.loose, &other.packed, &other.stash)
    }

    /// Whether everything that the other one names is the same here, wherever a reference lies.
    /// Other working trees may be there besides.
    pub(crate) fn has_all_of(&self, other: &Self) -> bool {
        let has = |(name, content)| self.heads.get(name) == Some(content);
        self.stash == other.stash
            && other.heads.iter().all(has)
            && self.refs() == other.refs()
            && self.remotes() == other.remotes()
    }

    /// The configuration and the hooks.
    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether this commit was an entry of the stash.
    pub(crate) fn had_stash(&self, commit: &str) -> bool {
        self.stash.lines().any(|line| word(line, 1) == Some(commit))
    }
}

fn word(line: &str, number: usize) -> Option<&str> {
    line.split(' ').nth(number)
}
