//! Whether a copy names what the host names: then git need not be asked.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use super::super::quarantine::Stamp;
use super::super::read::{open_directory, read_beneath};
use super::super::worktrees::{self, Worktree};
use super::Collect;

impl Collect<'_> {
    /// Whether each HEAD, every reference and the list of stashes are byte for byte what the host
    /// has.
    pub(super) fn is_unchanged(&self, all: &[Worktree]) -> bool {
        let host = self.copied.host.path();
        let is_staged = |(name, before): (&String, &Stamp)| {
            Stamp::of(&self.copied.private.join(name)).as_ref() != Some(before)
        };
        if self.copied.own_indexes.iter().any(is_staged) {
            return false;
        }
        let same = |name: &str| is_same(&self.copied.private.join(name), &host.join(name));
        same("HEAD")
            && all.iter().all(|worktree| same(&worktree.head))
            && same("packed-refs")
            && same("logs/refs/stash")
            && !host.join("reftable").exists()
            && same_tree(&self.copied.private.join("refs"), &host.join("refs"), 0)
            && worktrees::made(&self.copied.private, host).is_empty()
    }
}

/// Whether two files hold the same, or are both missing.
fn is_same(one: &Path, other: &Path) -> bool {
    let read = |path: &Path| {
        let directory = match open_directory(path.parent()?) {
            Ok(directory) => directory,
            Err(rustix::io::Errno::NOENT) => return Some(None),
            Err(_) => return None,
        };
        Some(read_beneath(directory, Path::new(path.file_name()?)).ok()?.map(|it| it.bytes))
    };
    let (here, there) = (read(one), read(other));
    here.is_some() && here == there
}

/// Whether two directories of references hold the same files.
fn same_tree(one: &Path, other: &Path, depth: usize) -> bool {
    const DEEPEST: usize = 64;
    let list = |path: &Path| -> Option<Vec<(OsString, bool)>> {
        let entries = fs::read_dir(path).ok()?.flatten();
        let pairs = entries
            .map(|entry| (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())));
        let mut list: Vec<_> = pairs.collect();
        list.sort();
        Some(list)
    };
    let (Some(here), Some(there)) = (list(one), list(other)) else { return false };
    depth < DEEPEST
        && here == there
        && here.iter().all(|(name, is_directory)| {
            let (one, other) = (one.join(name), other.join(name));
            if *is_directory { same_tree(&one, &other, depth + 1) } else { is_same(&one, &other) }
        })
}
