//! The working trees of a repository, and which of them the sandbox worked in.
//!
//! A working tree that the sandbox could write is at the commit where the sandbox left it, so the
//! host's HEAD of it follows. In any other one somebody else works: the branch that is checked out
//! there is not moved beneath them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{list_beneath, open_directory, read_beneath};

use crate::config::Config;
use crate::host_git::{GitError, HostGit};
use crate::layout::CONFIGS;
use crate::pointer::{line, normal};
use crate::refs::{is_branch, is_component};

/// One working tree, as the host knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its git directory.
    pub git: Anchor,
    /// How the repository calls its HEAD (gitrevisions(7), git-worktree(1), "Refs").
    pub head: String,
    /// Its top, for people.
    pub top: PathBuf,
    /// Whether the sandbox worked in it.
    pub within: bool,
}

impl Worktree {
    /// Returns the path of a file of its git directory, from the repository's git directory.
    pub fn path_of(&self, name: &str) -> String {
        self.head.strip_suffix("HEAD").unwrap_or_default().to_owned() + name
    }
}

/// Lists the working trees of the repository at `git`, the main one first. `tops` are those that
/// the sandbox could write, each with the git directory that its `.git` leads to: a file that
/// anyone may have written, so it counts only where the repository says the same.
pub fn list(git: &Anchor, tops: &[(PathBuf, PathBuf)]) -> Vec<Worktree> {
    let mut all: Vec<Worktree> = main(git, tops).into_iter().collect();
    let mut linked: Vec<Worktree> = fs::read_dir(git.path().join("worktrees"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| one(git, entry.file_name().to_str()?, tops))
        .collect();
    linked.sort_by(|one, other| one.head.cmp(&other.head));
    all.append(&mut linked);
    all
}

/// Returns the main working tree; a bare repository has none.
fn main(anchor: &Anchor, tops: &[(PathBuf, PathBuf)]) -> Option<Worktree> {
    let (git, directory) = (anchor.path(), anchor.open().ok()?);
    let mut settings = Vec::new();
    for name in CONFIGS {
        let content = read_beneath(&directory, Path::new(name)).ok().flatten();
        settings
            .extend(content.map(|it| Config::parse_last(it.bytes).settings).unwrap_or_default());
    }
    let config = Config { settings, broken: false };
    let named = config
        .last("core.worktree")
        .map(|named| normal(&git.join(named)))
        .map(|named| fs::canonicalize(&named).unwrap_or(named));
    let bare = config.last("core.bare").unwrap_or_default().to_ascii_lowercase();
    let is_bare = ["true", "yes", "on", "1"].iter().any(|word| bare == *word);
    if is_bare && named.is_none() {
        return None;
    }
    let above = || git.parent().filter(|_| git.ends_with(".git")).map(Path::to_owned);
    let claimed = tops.iter().find(|(_, led)| is_same(led, git)).map(|(top, _)| top.clone());
    let top = named.or_else(above).or(claimed)?;
    let within = tops.iter().any(|(other, led)| is_same(other, &top) && is_same(led, git));
    Some(Worktree { git: anchor.clone(), head: "HEAD".to_owned(), top, within })
}

fn one(git: &Anchor, id: &str, tops: &[(PathBuf, PathBuf)]) -> Option<Worktree> {
    let git = git.below(&Path::new("worktrees").join(id)).ok()?;
    let own = git.path();
    let file = normal(&own.join(line(&own.join("gitdir"), b"")?));
    let top = file.parent()?.to_owned();
    let is_this = |(other, led): &(PathBuf, PathBuf)| is_same(other, &top) && is_same(led, own);
    let within = is_component(id) && tops.iter().any(is_this);
    Some(Worktree { git, head: format!("worktrees/{id}/HEAD"), top, within })
}

/// What git has checked out in one working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedOut {
    /// Its top, as git calls it. Of a submodule git calls the git directory so.
    pub top: PathBuf,
    /// The reference of the branch; none where HEAD is detached, and of a bare repository.
    pub branch: Option<String>,
}

/// Asks git once what is checked out in all working trees of a repository, the main one first.
///
/// # Errors
/// Returns why git did not run, or what it said when it failed.
pub fn checked_out(git: HostGit<'_>) -> Result<Vec<CheckedOut>, GitError> {
    Ok(parse_checked_out(&git.run_with(&["worktree", "list", "--porcelain"], &[], None)?))
}

/// Reads what `git worktree list --porcelain` writes. `-z` needs git 2.36. A line break in a path does no harm without it: what
/// follows in the path comes before the line about HEAD, and from there on git's own lines count.
fn parse_checked_out(listed: &[u8]) -> Vec<CheckedOut> {
    let mut all: Vec<CheckedOut> = Vec::new();
    for line in listed.split(|byte| *byte == b'\n') {
        if let Some(top) = line.strip_prefix(b"worktree ") {
            all.push(CheckedOut { top: OsStr::from_bytes(top).into(), branch: None });
        } else if let Some(last) = all.last_mut() {
            if line.starts_with(b"HEAD ") {
                last.branch = None;
            } else if let Some(branch) = line.strip_prefix(b"branch ") {
                last.branch = Some(String::from_utf8_lossy(branch).into_owned());
            }
        }
    }
    all
}

/// Where a stopped rebase has the branch that it moves when it ends, and resets when it is aborted (git-rebase(1)).
const REBASED: [&str; 2] = ["rebase-merge/head-name", "rebase-apply/head-name"];

/// Returns the branch that is in use in the working tree with this git directory although HEAD is detached: a rebase is stopped
/// on it. git moves no such branch either.
pub fn rebased(git: &Anchor) -> Option<String> {
    let opened = git.open().ok()?;
    let read = |name| read_beneath(&opened, Path::new(name)).ok().flatten();
    let content = REBASED.into_iter().find_map(read)?;
    let name = String::from_utf8(content.bytes).ok()?.trim_end().to_owned();
    is_branch(&name).then_some(name)
}

/// Returns whether two paths lead to one directory; what a pointer file names may lead through links.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    one == other || real(one).is_some_and(|one| real(other) == Some(one))
}

/// Names of linked worktrees that the copy has and the host has not.
pub fn made(copy: &Path, git: &Path) -> Vec<String> {
    /// More are not listed.
    const MOST: usize = 64;
    let listed = open_directory(copy).and_then(|copy| list_beneath(copy, Path::new("worktrees")));
    let Ok(entries) = listed else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let is_new = |id: &String| is_component(id) && !git.join("worktrees").join(id).exists();
    let mut names: Vec<String> = names.filter(is_new).take(MOST).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_of_all_working_trees_are_read() {
        let listed =
            b"worktree /a/bare.git\nbare\n\nworktree /a/b\nHEAD 12\nbranch refs/heads/b\n\n\
            worktree /a/c\nHEAD 12\ndetached\nlocked why\n\n\
            worktree /a/d\nbranch refs/heads/e\nHEAD 12\ndetached\n\n";
        let expected =
            [("/a/bare.git", None), ("/a/b", Some("refs/heads/b")), ("/a/c", None), ("/a/d", None)];
        let expected = expected
            .map(|(top, branch)| CheckedOut { top: top.into(), branch: branch.map(str::to_owned) });
        assert_eq!(parse_checked_out(listed), expected);
    }
}
