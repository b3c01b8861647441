//! Which files of a git directory were there at the start, to tell who changed one since.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use pinfold_host::beneath::{list_beneath, open_directory};
use serde::{Deserialize, Serialize};

/// Files that say that a merge, cherry-pick or revert was stopped.
pub const STOPPED: [&str; 3] = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"];
/// Files that such a command leaves besides (`remove_branch_state` in git's branch.c).
pub const OF_STOPPED: [&str; 5] =
    ["MERGE_RR", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "AUTO_MERGE"];

/// A file's inode number, change time in nanoseconds, and size in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp(u64, i128, u64);

impl Stamp {
    /// Returns the stamp of the file at a path, if there is one.
    pub fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        let changed = i128::from(found.ctime()) * 1_000_000_000 + i128::from(found.ctime_nsec());
        Some(Self(found.ino(), changed, found.size()))
    }
}

/// Stamps of files, by their paths in the git directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamps(BTreeMap<String, Stamp>);

impl Stamps {
    /// Returns the stamps of each index of a repository, and of what stopped commands left.
    pub fn of(git: &Path) -> Self {
        let listed = open_directory(git).and_then(|git| list_beneath(git, Path::new("worktrees")));
        let worktrees = listed.into_iter().flatten().flatten();
        let ids = worktrees.filter_map(|entry| entry.file_name().into_string().ok());
        let directories = ids.map(|id| format!("worktrees/{id}/")).chain([String::new()]);
        let names = ["index"].into_iter().chain(STOPPED).chain(OF_STOPPED);
        Self::at(git, directories.flat_map(|at| names.clone().map(move |name| at.clone() + name)))
    }

    /// Returns the stamps of the same files in a copy of that git directory.
    pub fn of_copy(&self, copy: &Path) -> Self {
        Self::at(copy, self.0.keys().cloned())
    }

    fn at(git: &Path, names: impl Iterator<Item = String>) -> Self {
        let stamp = |name: String| Some((name.clone(), Stamp::of(&git.join(name))?));
        Self(names.filter_map(stamp).collect())
    }

    /// Returns the stamp of one file, if it was there.
    pub fn get(&self, name: &str) -> Option<Stamp> {
        self.0.get(name).copied()
    }

    /// Returns the names of files that have another stamp in the other list, or none.
    pub fn differences<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'s str> {
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        names.filter(|name| self.0.get(*name) != other.0.get(*name)).map(String::as_str)
    }
}
