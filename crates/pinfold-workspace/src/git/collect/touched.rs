//! Commits that change what tools on the host run or trust by themselves.
//!
//! A branch or tag with such a commit would put the file into the checkout at the next `git checkout`,
//! and a stash at the next `git stash pop`. So it waits until the user has looked. A file that a branch or HEAD of the host had at the start,
//! with this very content at this very path, is nothing new. Each commit is judged: what the last one removes again
//! is in the history, and a later session could name that commit.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::listed::{Change, Entry, parse_changes};
use pinfold_git::refs::shell_word;
use pinfold_git::state::State;
use pinfold_git::worktrees;
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_names::{Folded, Protection, Site, fold};

use super::Collect;
use crate::git::committed::{LARGEST, is_content_of};

/// Branches whose content at the start is compared at most.
const MOST_TIPS: usize = 256;

/// Paths whose earlier content is looked up at most.
const MOST_PATHS: usize = 100;

/// Recorded commits of submodules that are judged at most.
const MOST_RECORDED: usize = 256;

/// What the modes of files begin with; those of links do not.
const FILE: &str = "100";

/// How git-diff-tree(1) lists the changes of many commits, for merges against each parent.
const OF_COMMITS: [&str; 5] = ["--stdin", "-r", "-m", "--root", "--no-commit-id"];

/// Has git-diff-tree(1) list every submodule. Otherwise it leaves out those that `.gitmodules` of the
/// host's index ignores (`submodule.NAME.ignore`), which a session can write.
pub(super) const ALL_SUBMODULES: &str = "--ignore-submodules=none";

/// Returns why a branch waits, and what lets it through.
pub(super) fn reason(found: impl Display, session: &str) -> String {
    reason_with(found, &format!("pinfold accept {}", shell_word(session)))
}

/// Returns the same with another command.
pub(super) fn reason_with(found: impl Display, command: &str) -> String {
    format!("{found}; `{command}` takes it")
}

impl Collect<'_> {
    /// Returns the first protected path that one of the commits up to `new` puts somewhere as the host does not know it.
    /// What a later commit takes back counts as well: any commit can be checked out.
    pub(super) fn touches_protected(
        &self,
        state: &State,
        new: &str,
    ) -> Result<Option<String>, Refusal> {
        let commits = self.new_commits(state, std::iter::once(new))?;
        if commits.is_empty() {
            return self.names_protected(state, new);
        }
        let changes = self.changes(&OF_COMMITS, commits.as_bytes())?;
        let unknown = self.unknown(state, &changes)?;
        if unknown.is_empty() {
            return Ok(None);
        }
        let paths = unknown.iter().map(|change| change.path).collect();
        let at_the_end = self.content(new, &paths)?;
        let stays = |change: &Change<'_>| at_the_end.get(change.path) == Some(&change.entry);
        if let Some(change) = unknown.iter().find(|change| stays(change)) {
            return Ok(Some(change.shown()));
        }
        let earlier = self.earlier(state, &unknown)?;
        let known: BTreeSet<Change<'_>> = parse_changes(&earlier).collect();
        Ok(unknown.iter().find(|change| !known.contains(*change)).map(Change::shown))
    }

    /// Returns the first such path in all commits up to these, whatever the history of the host has.
    pub(super) fn first_unknown<'n>(
        &self,
        state: &State,
        new: impl Iterator<Item = &'n str>,
    ) -> Result<Option<String>, Refusal> {
        let commits = self.new_commits(state, new)?;
        if commits.is_empty() {
            return Ok(None);
        }
        let changes = self.changes(&OF_COMMITS, commits.as_bytes())?;
        Ok(self.unknown(state, &changes)?.first().map(Change::shown))
    }

    /// Lists the commits up to these that the host did not have at the start.
    fn new_commits<'n>(
        &self,
        state: &State,
        new: impl Iterator<Item = &'n str>,
    ) -> Result<String, Refusal> {
        let mut wanted: String = new.map(|new| format!("{new}\n")).collect();
        if wanted.is_empty() {
            return Ok(wanted);
        }
        wanted.extend(self.known(state).into_iter().map(|tip| format!("^{tip}\n")));
        Ok(self.host().run(&["rev-list", "--stdin"], Some(wanted.as_bytes()))?)
    }

    /// Returns the same for what has no new commits. A tag may name a tree: `git checkout v1 -- .` puts its files in place.
    fn names_protected(&self, state: &State, new: &str) -> Result<Option<String>, Refusal> {
        let peeled = |to: &str| self.host().object(&format!("{new}^{to}"));
        if peeled("{commit}")?.is_some() {
            return Ok(None);
        }
        match peeled("{tree}")? {
            Some(tree) => self.stages_protected(state, None, &tree),
            None => Ok(None),
        }
    }

    /// Returns the same for a stash: its working tree, and what was staged and untracked, are commits of their own.
    pub(super) fn stash_touches(
        &self,
        state: &State,
        stash: &str,
    ) -> Result<Option<String>, Refusal> {
        for part in ["", "^2", "^3"] {
            let part = format!("{stash}{part}^{{commit}}");
            let Some(commit) = self.host().object(&part)? else {
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
    ) -> Result<Option<String>, Refusal> {
        let from = match from {
            Some(from) => from.to_owned(),
            None => self.empty_tree()?,
        };
        let changes = self.changes(&["-r", &from, to], b"")?;
        Ok(self.unknown(state, &changes)?.first().map(Change::shown))
    }

    /// Returns the same for all that lies in these trees. Tags may name any number of them.
    pub(super) fn first_of_trees<'n>(
        &self,
        state: &State,
        trees: impl Iterator<Item = &'n str>,
    ) -> Result<Option<String>, Refusal> {
        let mut trees = trees.peekable();
        if trees.peek().is_none() {
            return Ok(None);
        }
        let empty = self.empty_tree()?;
        let pairs: String = trees.map(|tree| format!("{empty} {tree}\n")).collect();
        let changes = self.changes(&["--stdin", "-r"], pairs.as_bytes())?;
        Ok(self.unknown(state, &changes)?.first().map(Change::shown))
    }

    fn empty_tree(&self) -> Result<String, Refusal> {
        let empty = ["hash-object", "-t", "tree", "--stdin"];
        Ok(self.host().run(&empty, Some(b""))?.trim().to_owned())
    }

    /// Returns what the host's commits did at the paths of these changes. Rebasing a branch of the host makes commits
    /// with content that only commits below its tip had.
    fn earlier(&self, state: &State, unknown: &BTreeSet<Change<'_>>) -> Result<Vec<u8>, Refusal> {
        let paths: BTreeSet<&str> =
            unknown.iter().filter_map(|change| change.path.to_str()).collect();
        if paths.is_empty() || paths.len() > MOST_PATHS {
            return Ok(Vec::new());
        }
        let paths: Vec<&str> = paths.into_iter().collect();
        let words = ["--literal-pathspecs", "rev-list", "--full-history", "--stdin", "--"];
        let tips: String = self.known(state).iter().map(|tip| format!("{tip}\n")).collect();
        let commits = self.host().run(&[&words[..], &paths].concat(), Some(tips.as_bytes()))?;
        self.changes(&OF_COMMITS, commits.as_bytes())
    }

    /// Returns what git-diff-tree(1) prints about changes, for [`parse`].
    fn changes(&self, how: &[&str], input: &[u8]) -> Result<Vec<u8>, Refusal> {
        let words = [&["diff-tree", "--no-renames", ALL_SUBMODULES, "--raw", "-z"], how].concat();
        Ok(self.host().run_with(&words, &[], Some(input))?)
    }

    /// Returns the changes of protected paths to what no branch had at the start.
    fn unknown<'c>(
        &self,
        state: &State,
        changes: &'c [u8],
    ) -> Result<BTreeSet<Change<'c>>, Refusal> {
        let named = self.named_below();
        let is_protected = |path: &Path| {
            is_protected(self.protection, path)
                || self.is_protected_in_place(path)
                || is_named(&named, path)
        };
        // What lies in a submodule is judged by the commits of that.
        let judged = |change: &Change<'_>| {
            is_protected(change.path) || change.is_submodule() || holds(&named, change.path)
        };
        let mut unknown: BTreeSet<Change<'_>> = parse_changes(changes).filter(judged).collect();
        for tip in self.known(state).iter().take(MOST_TIPS) {
            if unknown.is_empty() {
                break;
            }
            let paths = unknown.iter().map(|change| change.path).collect();
            let known = self.content(tip, &paths)?;
            unknown.retain(|change| {
                let is_known = known.get(change.path) == Some(&change.entry);
                !is_known || self.recorded.is_of_session && !self.is_in_place(change)
            });
        }
        let (recorded, mut unknown): (BTreeSet<_>, BTreeSet<_>) = unknown
            .into_iter()
            .partition(|change| change.is_submodule() && !is_protected(change.path));
        let commits: Vec<&str> = recorded
            .iter()
            .map(|change| change.entry.object.as_str())
            .take(MOST_RECORDED)
            .collect();
        let protected = self.first_protected(&commits)?;
        let unjudged = (recorded.len() > MOST_RECORDED).then_some(MOST_RECORDED);
        if let Some(number) = protected.or(unjudged) {
            unknown.extend(recorded.into_iter().nth(number));
        }
        Ok(unknown)
    }

    /// Returns whether a working tree of the repository has what a change puts there. Of a repository that a session made, only
    /// that was looked through at its end. A commit that an entry records is judged by itself.
    fn is_in_place(&self, change: &Change<'_>) -> bool {
        let tops = || worktrees::list(&self.copied.host, self.tops);
        change.is_submodule() || tops().iter().any(|worktree| is_in(change, &worktree.top))
    }

    /// Returns the commits of HEADs and branches at the start. Tags do not count: they come with what is fetched.
    fn known(&self, state: &State) -> BTreeSet<String> {
        let branches = state.start.iter().filter(|(name, _)| name.starts_with("refs/heads/"));
        branches.map(|(_, tip)| tip.clone()).chain(self.copied.start.head_commits()).collect()
    }

    /// Returns whether a path is protected where a working tree has it: some names are protected at the top of what was
    /// granted, or in a home.
    fn is_protected_in_place(&self, path: &Path) -> bool {
        self.own_tops().map(|top| top.join(path)).any(|path| {
            if self.commands.has(&path) {
                return true;
            }
            let is_in = |(root, site): &(PathBuf, Site)| {
                path.strip_prefix(root).is_ok_and(|it| is_protected_at(self.protection, site, it))
            };
            self.roots.iter().any(is_in)
        })
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

    /// Finds each of these paths in a commit or a tree.
    fn content(
        &self,
        tree: &str,
        paths: &BTreeSet<&Path>,
    ) -> Result<BTreeMap<PathBuf, Entry>, Refusal> {
        let listed = self.host().run_with(&["ls-tree", "-r", "-z", tree], &[], None)?;
        // `MODE TYPE OBJECT`, a tab, the path.
        let entry = |line: &[u8]| {
            let at = line.iter().position(|byte| *byte == b'\t')?;
            let path = Path::new(OsStr::from_bytes(&line[at + 1..]));
            let mut words = line[..at].split(|byte| *byte == b' ').map(String::from_utf8_lossy);
            let entry = Entry { mode: words.next()?.into(), object: words.nth(1)?.into() };
            paths.contains(path).then(|| (path.to_owned(), entry))
        };
        Ok(listed.split(|byte| *byte == 0).filter_map(entry).collect())
    }
}

/// Returns whether a working tree has this file. The sandbox could write there, so no link is followed. A link of the same
/// content is another thing.
fn is_in(change: &Change<'_>, top: &Path) -> bool {
    if !change.entry.mode.starts_with(FILE) {
        return false;
    }
    let content = open_directory(top).map(|top| read_bounded(top, change.path, LARGEST));
    matches!(content, Ok(Ok(Some(content))) if is_content_of(&change.entry.object, &content.bytes))
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
    is_protected_at(protection, &Site::of_names(Path::new("/")), path)
}

/// Returns the same of a path below a directory that lies there.
fn is_protected_at(protection: &Protection, site: &Site, path: &Path) -> bool {
    let is_executed = |path: &Path| {
        let name = path.file_name().map(OsStr::as_bytes);
        let may_match = |name| Protection::may_match(&Folded::of(name)) || site.is_moved(path);
        name.is_some_and(may_match)
            && protection.classify(site, path).is_some_and(|class| class.executed().is_some())
    };
    path.ancestors().filter(|path| !path.as_os_str().is_empty()).any(is_executed)
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
