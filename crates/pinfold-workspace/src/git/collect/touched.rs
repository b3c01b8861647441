//! Commits that change what tools on the host run or trust by themselves.
//!
//! A branch or tag with such a commit would put the file into the checkout at the next `git checkout`,
//! and a stash at the next `git stash pop`. So it waits until the user has looked. A file that a branch or HEAD of the host had at the start,
//! with this very content at this very path, is nothing new.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::refs::shell_word;
use pinfold_git::state::State;
use pinfold_git::worktrees;
use pinfold_names::{Folded, Protection, Site, fold};
use pinfold_policy::path::Escaped;

use super::Collect;

/// Branches whose content at the start is compared at most.
const MOST_TIPS: usize = 256;

/// How the mode of a submodule begins git-ls-tree(1)'s line.
const SUBMODULE: &str = "160000 ";

/// Has git-diff-tree(1) list every submodule. Otherwise it leaves out those that `.gitmodules` of the
/// host's index ignores (`submodule.NAME.ignore`), which a session can write.
pub(super) const ALL_SUBMODULES: &str = "--ignore-submodules=none";

/// Returns why a branch waits, and what lets it through.
pub(super) fn reason(path: &str, session: &str) -> String {
    reason_with(path, &format!("pinfold accept {}", shell_word(session)))
}

/// Returns the same with another command.
pub(super) fn reason_with(path: &str, command: &str) -> String {
    format!("it changes {path}, which tools run or trust by themselves; `{command}` takes it")
}

impl Collect<'_> {
    /// Returns the first protected path that the commits up to `new` change and that is new to the host.
    pub(super) fn touches_protected(
        &self,
        state: &State,
        new: &str,
    ) -> Result<Option<String>, String> {
        let commits = self.host().run(&["rev-list", "--stdin"], Some(&not(state, new)))?;
        if commits.trim().is_empty() {
            return Ok(None);
        }
        let how = ["--stdin", "-r", "-m", "--root", "--no-commit-id"];
        let names = self.changed(&how, commits.as_bytes())?;
        self.first_new(state, new, names)
    }

    /// Returns the same for a stash: its working tree, and what was staged and untracked, are commits of
    /// their own.
    pub(super) fn stash_touches(
        &self,
        state: &State,
        stash: &str,
    ) -> Result<Option<String>, String> {
        for part in ["", "^2", "^3"] {
            let part = format!("{stash}{part}^{{commit}}");
            let Some(commit) = self.host().line(&["rev-parse", "-q", "--verify", &part]) else {
                continue;
            };
            if let Some(path) = self.touches_protected(state, &commit)? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// Returns the same for what leads from one staged tree to another.
    pub(super) fn stages_protected(
        &self,
        state: &State,
        from: Option<&str>,
        to: &str,
    ) -> Result<Option<String>, String> {
        let empty = ["hash-object", "-t", "tree", "--stdin"];
        let from = match from {
            Some(from) => from.to_owned(),
            None => self.host().run(&empty, Some(b""))?.trim().to_owned(),
        };
        let names = self.changed(&["-r", &from, to], b"")?;
        self.first_new(state, to, names)
    }

    fn changed(&self, how: &[&str], input: &[u8]) -> Result<Vec<u8>, String> {
        let words =
            [&["diff-tree", "--no-renames", ALL_SUBMODULES, "--name-only", "-z"], how].concat();
        self.host().run_with(&words, &[], Some(input))
    }

    /// Returns the first of these paths that is protected and whose content in `tree` no branch had.
    fn first_new(
        &self,
        state: &State,
        tree: &str,
        names: Vec<u8>,
    ) -> Result<Option<String>, String> {
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let named = self.named_below();
        let paths: BTreeSet<PathBuf> = names
            .map(|name| PathBuf::from(OsStr::from_bytes(name)))
            .filter(|path| {
                is_protected(self.protection, path) || is_named(&named, path) || holds(&named, path)
            })
            .collect();
        if paths.is_empty() {
            return Ok(None);
        }
        let now = self.content(tree, &paths)?;
        let mut before: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
        for tip in branches(state).take(MOST_TIPS) {
            for (path, object) in self.content(tip, &paths)? {
                before.entry(path).or_default().insert(object);
            }
        }
        let is_new = |(path, object): &(&PathBuf, &String)| {
            !before.get(*path).is_some_and(|known| known.contains(*object))
        };
        // What lies in a submodule is judged by the commits of that.
        let is_of_submodule = |(path, object): &(&PathBuf, &String)| {
            object.starts_with(SUBMODULE)
                && !is_protected(self.protection, path)
                && !is_named(&named, path)
        };
        let mut new = now.iter().filter(|entry| !is_of_submodule(entry));
        Ok(new.find(is_new).map(|(path, _)| Escaped(path).to_string()))
    }

    /// Returns what something names in a working tree of the repository, relative to that. A checkout puts a file of any
    /// branch there.
    fn named_below(&self) -> Vec<&Path> {
        if self.named.is_empty() {
            return Vec::new();
        }
        let tops = worktrees::list(&self.copied.host, self.tops);
        tops.iter().flat_map(|top| below(&top.top, self.named)).collect()
    }

    /// Finds mode and object of each of these paths in a commit.
    fn content(
        &self,
        commit: &str,
        paths: &BTreeSet<PathBuf>,
    ) -> Result<BTreeMap<PathBuf, String>, String> {
        let listed = self.host().run_with(&["ls-tree", "-r", "-z", commit], &[], None)?;
        let entries = listed.split(|byte| *byte == 0);
        let entry = |entry: &[u8]| {
            let at = entry.iter().position(|byte| *byte == b'\t')?;
            let path = PathBuf::from(OsStr::from_bytes(&entry[at + 1..]));
            let object = String::from_utf8_lossy(&entry[..at]).into_owned();
            paths.contains(&path).then_some((path, object))
        };
        Ok(entries.filter_map(entry).collect())
    }
}

/// Returns those of the paths that lie in a directory, relative to it. It is found by device and inode: a mount or a link
/// leads to it under another name.
fn below<'p>(top: &Path, paths: &'p [PathBuf]) -> Vec<&'p Path> {
    let id = |path: &Path| fs::metadata(path).map(|it| (it.dev(), it.ino())).ok();
    let Some(wanted) = id(top) else { return Vec::new() };
    let relative = |path: &'p PathBuf| {
        let above = path.ancestors().skip(1).find(|above| id(above) == Some(wanted))?;
        path.strip_prefix(above).ok()
    };
    paths.iter().filter_map(relative).collect()
}

/// Returns a path with its case folded: a directory may fold that of names (ext4, casefold).
fn folded(path: &Path) -> PathBuf {
    OsStr::from_bytes(&fold(path.as_os_str().as_bytes())).into()
}

/// Returns whether this is named, or lies in what is.
fn is_named(named: &[&Path], path: &Path) -> bool {
    named.iter().any(|named| folded(path).starts_with(folded(named)))
}

/// Returns whether what is named lies in this: a link in the place of a directory leads elsewhere.
fn holds(named: &[&Path], path: &Path) -> bool {
    named.iter().any(|named| folded(named).starts_with(folded(path)))
}

/// Returns whether tools run what lies at this path, or in a directory above it, by themselves.
fn is_protected(protection: &Protection, path: &Path) -> bool {
    let top = Site::of_names(Path::new("/"));
    let is_executed = |path: &Path| {
        let name = path.file_name().map(OsStr::as_bytes);
        name.is_some_and(|name| Protection::may_match(&Folded::of(name)))
            && protection.classify(&top, path).is_some_and(|class| class.executed().is_some())
    };
    path.ancestors().filter(|path| !path.as_os_str().is_empty()).any(is_executed)
}

/// Returns what git-rev-list(1) reads: the commits up to `new` that the host did not have at the start.
fn not(state: &State, new: &str) -> Vec<u8> {
    let known = branches(state).map(|object| format!("^{object}\n"));
    std::iter::once(format!("{new}\n")).chain(known).collect::<String>().into_bytes()
}

/// Returns the commits of the branches at the start. Tags do not count: they come with what is fetched.
fn branches(state: &State) -> impl Iterator<Item = &String> {
    let heads = state.start.iter().filter(|(name, _)| name.starts_with("refs/heads/"));
    heads.map(|(_, object)| object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_of_what_is_named_or_of_what_it_lies_in_or_holds_is_one_of_it() {
        let named = ["certs/ca.crt", "hooks"].map(Path::new);
        let is = |path: &str| is_named(&named, path.as_ref()) || holds(&named, path.as_ref());
        assert!(is("certs/ca.crt") && is("certs") && is("hooks/pre-commit") && is("hooks"));
        assert!(is("Certs/CA.crt") && is("HOOKS/x"));
        assert!(!is("certs/ca.crt2") && !is("certs/other") && !is("hook"));
    }

    #[test]
    fn what_is_named_is_found_below_a_directory_by_any_name_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir_all(real.join("certs")).unwrap();
        std::os::unix::fs::symlink(&real, dir.path().join("link")).unwrap();
        let named = [real.join("certs/ca.crt"), dir.path().join("other/ca.crt"), real.clone()];
        for top in ["real", "link"] {
            assert_eq!(below(&dir.path().join(top), &named), [Path::new("certs/ca.crt")], "{top}");
        }
        assert!(below(&dir.path().join("none"), &named).is_empty());
    }

    #[test]
    fn files_that_tools_run_are_protected_wherever_they_lie() {
        let protection = Protection::default();
        let is = |path: &str| is_protected(&protection, Path::new(path));
        assert!(is(".envrc") && is("sub/.vscode/tasks.json") && is(".husky/pre-commit"));
        assert!(!is("src/main.rs") && !is(".env") && !is("husky/x"));
    }
}
