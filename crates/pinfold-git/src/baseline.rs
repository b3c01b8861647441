//! What a repository held when a session started: distinguishes what the session deleted from what the
//! host made since.

use std::collections::{HashMap, HashSet};
use std::fs::DirEntry;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;

use pinfold_host::beneath::{list_beneath, open_directory, read_bounded};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::dropped::Settings;
use crate::refs::{Head, Refs, is_name, is_object, is_remote, parse_refs};

/// References, HEADs and stashes by name. Of a repository that keeps its references in tables
/// (`reftable`) nothing is known, so nothing is said of deletions in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Start {
    /// What the HEAD of each worktree holds.
    heads: HashMap<String, String>,
    loose: HashMap<String, String>,
    packed: String,
    stash: String,
    /// Whether some of it could not be read.
    #[serde(default)]
    is_partial: bool,
    #[serde(default)]
    settings: Settings,
    #[serde(skip)]
    has_other_commits: OnceLock<bool>,
}

/// More bytes of references, HEADs and stashes are not read; a packed reference takes some sixty.
const LARGEST: u64 = 256 << 20;
/// Bytes of a file that holds one reference.
const LONGEST_REFERENCE: u64 = 4096;
/// Levels of directories of references.
const DEEPEST: usize = 64;

impl Start {
    /// Reads a git directory. It may hold anything, links to anywhere among it: what is no regular
    /// file in a directory beneath it, and what is too much, is not known.
    pub fn read(git: &Path) -> Self {
        let mut start = Self { settings: Settings::read(git), ..Self::default() };
        let Ok(top) = open_directory(git) else { return Self { is_partial: true, ..start } };
        let mut left = LARGEST;
        let mut heads = vec!["HEAD".to_owned()];
        start.each(&top, Path::new("worktrees"), &mut left, |_, _, entry| {
            heads.extend(entry.file_name().to_str().map(|id| format!("worktrees/{id}/HEAD")));
        });
        for head in heads {
            if let Some(content) = start.content(&top, &head, LONGEST_REFERENCE, &mut left) {
                start.heads.insert(head, content);
            }
        }
        let mut content = |name| start.content(&top, name, LARGEST, &mut left).unwrap_or_default();
        (start.packed, start.stash) = (content("packed-refs"), content("logs/refs/stash"));
        start.names(&top, Path::new("refs"), &mut left, DEEPEST);
        start
    }

    fn content(
        &mut self,
        top: &OwnedFd,
        path: impl AsRef<Path>,
        largest: u64,
        left: &mut u64,
    ) -> Option<String> {
        let content = read_bounded(top, path.as_ref(), largest.min(*left));
        self.is_partial |= content.is_err();
        let content = content.ok()??;
        *left = left.saturating_sub(content.bytes.len() as u64);
        Some(String::from_utf8_lossy(&content.bytes).into_owned())
    }

    /// Shows each entry of a directory. One that is missing has none.
    fn each(
        &mut self,
        top: &OwnedFd,
        path: &Path,
        left: &mut u64,
        mut show: impl FnMut(&mut Self, &mut u64, &DirEntry),
    ) {
        let entries = match list_beneath(top, path) {
            Ok(entries) => entries,
            Err(Errno::NOENT) => return,
            Err(_) => {
                self.is_partial = true;
                return;
            }
        };
        for entry in entries {
            let entry = entry.ok();
            // A name takes memory even where what it names is empty.
            let rest = left.checked_sub((path.as_os_str().len() + 256) as u64);
            let Some((entry, rest)) = entry.zip(rest) else {
                self.is_partial = true;
                return;
            };
            *left = rest;
            show(self, left, &entry);
        }
    }

    fn names(&mut self, top: &OwnedFd, directory: &Path, left: &mut u64, deepest: usize) {
        let Some(deepest) = deepest.checked_sub(1) else {
            self.is_partial = true;
            return;
        };
        self.each(top, directory, left, |start, left, entry| {
            let path = directory.join(entry.file_name());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                start.names(top, &path, left, deepest);
                return;
            }
            let value = start.content(top, &path, LONGEST_REFERENCE, left).unwrap_or_default();
            start.loose.insert(path.to_string_lossy().into_owned(), value.trim().to_owned());
        });
    }

    /// Returns the references with the objects that they name. A symbolic one is left out.
    pub fn refs(&self) -> Refs {
        let mut refs = parse_refs(&self.packed);
        for (name, value) in self.loose.iter().filter(|(name, _)| is_name(name)) {
            if is_object(value) {
                refs.insert(name.clone(), value.clone())
            } else {
                refs.remove(name)
            };
        }
        refs
    }

    /// Returns the same of remote-tracking branches.
    pub fn remotes(&self) -> Refs {
        let packed = self
            .packed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(object, name)| is_object(object) && is_remote(name));
        let mut remotes: Refs =
            packed.map(|(object, name)| (name.to_owned(), object.to_owned())).collect();
        for (name, value) in self.loose.iter().filter(|(name, _)| is_remote(name)) {
            if is_object(value) {
                remotes.insert(name.clone(), value.clone())
            } else {
                remotes.remove(name)
            };
        }
        remotes
    }

    /// Returns what a HEAD held: the branch, or the commit.
    pub fn head(&self, name: &str) -> Option<Head> {
        let content = self.heads.get(name)?.trim();
        let branch = content.strip_prefix("ref: ").map(str::to_owned);
        let commit = match &branch {
            Some(branch) => self.object(branch),
            None => Some(content.to_owned()).filter(|commit| is_object(commit)),
        };
        Some(Head { branch, commit })
    }

    /// Returns the commits that HEADs were at.
    pub fn head_commits(&self) -> impl Iterator<Item = String> {
        self.heads.keys().filter_map(|name| self.head(name)?.commit)
    }

    /// Returns whether a branch, of the repository or of a remote, names another commit than HEAD does.
    /// It is found out once.
    pub fn has_other_commits(&self) -> bool {
        *self.has_other_commits.get_or_init(|| {
            let head = self.head("HEAD").and_then(|head| head.commit);
            self.names_another(head.as_deref())
        })
    }

    fn names_another(&self, commit: Option<&str>) -> bool {
        let packed = self.packed.lines().filter_map(|line| line.split_once(' '));
        let loose = self.loose.iter().map(|(name, value)| (value.as_str(), name.as_str()));
        packed.chain(loose).any(|(object, name)| {
            let is_branch = name.starts_with("refs/heads/") || name.starts_with("refs/remotes/");
            is_branch && Some(object) != commit && is_object(object)
        })
    }

    /// Returns what one branch or tag names, as [`Self::refs`] has it.
    fn object(&self, name: &str) -> Option<String> {
        if !is_name(name) {
            return None;
        }
        if let Some(value) = self.loose.get(name) {
            return is_object(value).then(|| value.clone());
        }
        let packed = self.packed.lines().rev().filter_map(|line| line.split_once(' '));
        let mut found = packed.filter(|(object, found)| *found == name && is_object(object));
        found.next().map(|(object, _)| object.to_owned())
    }

    /// Returns which object each reference named, whatever its kind.
    pub fn named(&self) -> Named<'_> {
        let packed = self.packed.lines().filter_map(|line| line.split_once(' ')).collect();
        Named { loose: &self.loose, packed }
    }

    /// Returns whether references, HEADs and stashes are known to be the same.
    pub fn names_the_same(&self, other: &Self) -> bool {
        if self.is_partial || other.is_partial {
            return false;
        }
        (&self.heads, &self.loose, &self.packed, &self.stash)
            == (&other.heads, &other.loose, &other.packed, &other.stash)
    }

    /// Returns whether everything that the other one names is known to be the same here, wherever a
    /// reference lies. Other working trees may be there besides.
    pub fn has_all_of(&self, other: &Self) -> bool {
        let has = |(name, content)| self.heads.get(name) == Some(content);
        !(self.is_partial || other.is_partial)
            && self.stash == other.stash
            && other.heads.iter().all(has)
            && self.refs() == other.refs()
            && self.remotes() == other.remotes()
    }

    /// Returns the configuration and the hooks.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns whether this commit was an entry of the stash.
    pub fn had_stash(&self, commit: &str) -> bool {
        self.stash.lines().any(|line| word(line, 1) == Some(commit))
    }
}

/// References of any kind, for many questions.
#[derive(Debug)]
pub struct Named<'a> {
    loose: &'a HashMap<String, String>,
    /// Objects with names, as the file has them.
    packed: HashSet<(&'a str, &'a str)>,
}

impl Named<'_> {
    /// Returns whether this reference named this object.
    pub fn has(&self, name: &str, object: &str) -> bool {
        match self.loose.get(name) {
            Some(value) => value == object,
            None => self.packed.contains(&(object, name)),
        }
    }
}

fn word(line: &str, number: usize) -> Option<&str> {
    line.split(' ').nth(number)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::fs::{self, File};
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::symlink;

    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";

    fn git() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("refs/heads")).unwrap();
        fs::write(dir.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
        dir
    }

    /// Returns whether a change of a git directory is noticed.
    fn is_noticed(change: impl Fn(&Path)) -> bool {
        let dir = git();
        let before = Start::read(dir.path());
        assert!(before.names_the_same(&Start::read(dir.path())));
        change(dir.path());
        let after = Start::read(dir.path());
        !after.names_the_same(&before)
    }

    #[test]
    fn each_new_branch_and_head_is_reported() {
        assert!(is_noticed(|git| fs::write(git.join("refs/heads/main"), ONE).unwrap()));
        assert!(is_noticed(|git| fs::write(git.join("HEAD"), ONE).unwrap()));
        let name = OsStr::from_bytes(b"refs/heads/caf\xe9");
        assert!(is_noticed(|git| fs::write(git.join(name), ONE).unwrap()));
        assert!(is_noticed(|git| {
            fs::create_dir_all(git.join("refs/heads").join("x/".repeat(80))).unwrap();
        }));
    }

    #[test]
    fn unreadable_directory_is_not_reported_as_unchanged() {
        let dir = git();
        fs::remove_file(dir.path().join("HEAD")).unwrap();
        symlink("refs/heads/main", dir.path().join("HEAD")).unwrap();
        let before = Start::read(dir.path());
        // As git does with `core.preferSymlinkRefs`.
        fs::remove_file(dir.path().join("HEAD")).unwrap();
        symlink("refs/heads/other", dir.path().join("HEAD")).unwrap();
        let after = Start::read(dir.path());
        assert!(!after.names_the_same(&before) && !after.has_all_of(&before));
    }

    #[test]
    fn nothing_is_read_through_a_link() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::create_dir_all(elsewhere.path().join("heads/w")).unwrap();
        fs::write(elsewhere.path().join("heads/file"), ONE).unwrap();
        fs::write(elsewhere.path().join("heads/w/HEAD"), ONE).unwrap();
        let dir = git();
        fs::remove_dir_all(dir.path().join("refs")).unwrap();
        symlink(elsewhere.path(), dir.path().join("refs")).unwrap();
        symlink(elsewhere.path().join("heads"), dir.path().join("worktrees")).unwrap();
        let read = Start::read(dir.path());
        assert!(read.is_partial && read.loose.is_empty() && read.heads.len() == 1);
    }

    #[test]
    fn a_session_cannot_have_more_read_than_a_bound() {
        let dir = git();
        for number in 0..64 {
            let worktree = dir.path().join(format!("worktrees/{number}"));
            fs::create_dir_all(&worktree).unwrap();
            File::create(worktree.join("HEAD")).unwrap().set_len(128 << 20).unwrap();
        }
        let read = Start::read(dir.path());
        assert!(read.is_partial && read.heads.len() == 1);
    }
}
