//! The repository of a task on the host, whose branches are moved by the host's git and never by a sandbox.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use pinfold_git::host_git::HostGit;
use pinfold_git::worktrees;
use pinfold_host::anchor::Anchor;
use pinfold_host::launcher::HostProgram;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::BranchName;
use pinfold_worktree::dedicated::{Dedicated, Unsaved};
use pinfold_worktree::workspace::Workspace;

use crate::work::Branches;

/// The most commits of a result that are looked at.
const MOST_COMMITS: &str = "--max-count=500";
/// The longest commit whose message is read, in bytes.
const LONGEST_COMMIT: u64 = 128 << 10;
/// Has git read commits as they are.
const AS_IT_IS: [(&str, &str); 2] =
    [("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_GRAFT_FILE", "/dev/null")];

/// The repository of a task.
pub struct Repository {
    workspace: Workspace,
    git: Anchor,
    program: HostProgram,
}

/// What became of the branch of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Published {
    /// It has the result.
    Moved,
    /// It stays where it is, for this reason.
    Kept(String),
}

/// What becomes of a branch that is there before the result is put on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Existing {
    /// It moves forward: the user or the task names it.
    Advances,
    /// It stays. It is called after a task, and others may choose an id that begins like another task's.
    Stays,
}

impl Published {
    /// Returns that the branch has the result.
    ///
    /// # Errors
    /// Returns why the branch stays where it is.
    pub(crate) fn moved(self) -> Result<(), Refusal> {
        match self {
            Self::Moved => Ok(()),
            Self::Kept(why) => Err(why.into()),
        }
    }
}

impl Repository {
    /// Finds the repository that a directory is in.
    ///
    /// # Errors
    /// Returns a reason if it is in no repository, or if no git can be used.
    pub fn of(directory: &Path, host: Host<'_>) -> Result<Self, Refusal> {
        let workspace = Workspace::around(directory, &host.places.home).map_err(|error| {
            let hint = error.hint();
            Refusal::new(Escaped(directory)).because(error).with_hint(hint)
        })?;
        let none = format!("{} is in no git repository", Escaped(directory));
        let directory = std::fs::canonicalize(workspace.git_directory()).map_err(|_| none)?;
        let git = Anchor::of(&directory)?;
        let writable = [workspace.root.as_path().to_owned(), directory];
        let program =
            host.launcher.find("git", &writable).map_err(Refusal::about("no git can be used"))?;
        Ok(Self { workspace, git, program })
    }

    /// Returns the top of its working tree.
    #[must_use]
    pub fn top(&self) -> &Path {
        self.workspace.root.as_path()
    }

    /// Returns the host's git for it.
    #[must_use]
    pub fn host(&self) -> HostGit<'_> {
        HostGit { program: &self.program, directory: &self.git }
    }

    /// Returns the commit that a name stands for.
    ///
    /// # Errors
    /// Returns an error for a name that stands for no commit.
    pub fn commit(&self, name: &str) -> Result<String, Refusal> {
        let name = format!("{name}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let none = || Refusal::new(format!("{} has no commit {name}", Escaped(self.top())));
        self.host().line(&words).ok_or_else(none)
    }

    /// Returns the commit of a branch, if there is such a branch.
    #[must_use]
    pub fn branch(&self, branch: &BranchName) -> Option<String> {
        self.commit(&branch.reference()).ok()
    }

    /// Asks git once which commits several references stand for, if any.
    ///
    /// # Errors
    /// Returns what git says.
    pub(crate) fn commits_of<const N: usize>(
        &self,
        references: [&str; N],
    ) -> Result<[Option<String>; N], Refusal> {
        let asked: String = references.iter().map(|name| format!("{name}^{{commit}}\n")).collect();
        let words = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
        let answered = self.host().run(&words, Some(asked.as_bytes()))?;
        // A line about what is missing ends with another word.
        let commit = |line: &str| Some(line.strip_suffix(" commit")?.to_owned());
        let mut commits = answered.lines().map(commit);
        Ok(references.map(|_| commits.next().flatten()))
    }

    /// Returns the commit that work begins at: that of `base`, else that of `earlier` if there is such a branch, else what
    /// is checked out.
    ///
    /// # Errors
    /// Returns an error if there is no such commit.
    pub(crate) fn begin_at(
        &self,
        base: Option<&BranchName>,
        earlier: Option<&BranchName>,
    ) -> Result<String, Refusal> {
        match (base, earlier.and_then(|branch| self.branch(branch))) {
            (Some(base), _) => self.commit(&base.reference()),
            (None, Some(commit)) => Ok(commit),
            (None, None) => self.commit("HEAD"),
        }
    }

    /// Returns the latest commits of a result with their messages, the first one first. An agent made them: a message may be
    /// as long as its disk has room for, and one that is too long is left out.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn commits(&self, base: &str, commit: &str) -> Result<Vec<(String, String)>, Refusal> {
        let range = format!("{base}..{commit}");
        let listed = ["rev-list", "--reverse", MOST_COMMITS, "--end-of-options", &range];
        let listed = self.host().run(&listed, None)?;
        let sized = ["cat-file", "--batch-check=%(objectname) %(objectsize)"];
        let sized = self.host().run(&sized, Some(listed.as_bytes()))?;
        let is_short = |size: &str| size.parse().is_ok_and(|size: u64| size <= LONGEST_COMMIT);
        let short: String = sized
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, size)| is_short(size))
            .map(|(name, _)| format!("{name}\n"))
            .collect();
        // Without a name git would show the current commit.
        let shown = if short.is_empty() {
            String::new()
        } else {
            let words =
                ["log", "--no-show-signature", "--no-walk=unsorted", "-z", "--format=%H %B"];
            let words = [&words[..], &["--stdin"]].concat();
            self.host().run(&words, Some(short.as_bytes()))?
        };
        let shown: HashMap<&str, &str> =
            shown.split('\0').filter_map(|text| text.trim().split_once(' ')).collect();
        let message = |name| shown.get(name).map_or("(a message that is too long)", |it| it.trim());
        Ok(listed.lines().map(|name| (name.to_owned(), message(name).to_owned())).collect())
    }

    /// Returns the branch that work begins at, if it begins at one that results could be merged into: `base`, else the
    /// one that is checked out, unless the work goes on from `earlier`.
    pub(crate) fn base_branch(
        &self,
        base: Option<&BranchName>,
        earlier: Option<&BranchName>,
    ) -> Option<BranchName> {
        if base.is_some() {
            return base.cloned();
        }
        let head = self.head()?;
        let goes_on = earlier.is_some_and(|own| head == *own || self.branch(own).is_some());
        (!goes_on).then_some(head)
    }

    /// Returns the branch that is checked out.
    #[must_use]
    pub fn head(&self) -> Option<BranchName> {
        let head = self.host().line(&["symbolic-ref", "-q", "HEAD"])?;
        head.strip_prefix("refs/heads/")?.parse().ok()
    }

    /// Returns whether two directories are in the same repository.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.git == other.git
    }

    /// Returns the branches that have a commit in their history.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn branches_with(&self, commit: &str) -> Result<Vec<BranchName>, Refusal> {
        let words = ["for-each-ref", "--format=%(refname)", "--contains", commit, "refs/heads"];
        let listed = self.host().run_with(&words, &AS_IT_IS, None)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let name = |line: &str| line.strip_prefix("refs/heads/")?.parse().ok();
        Ok(listed.lines().filter_map(name).collect())
    }

    /// Returns whether a commit is in the history of another one, whatever stands in its place (git-replace(1)).
    pub(crate) fn has(&self, commit: &str, ancestor: &str) -> bool {
        let words = ["merge-base", "--is-ancestor", ancestor, commit];
        self.host().run_with(&words, &AS_IT_IS, None).is_ok()
    }

    /// Returns the parents of a commit, whatever stands in its place.
    pub(crate) fn parents(&self, commit: &str) -> Result<Vec<String>, Refusal> {
        let words = ["rev-list", "--no-walk", "--parents", "--end-of-options", commit];
        let listed = self.host().run_with(&words, &AS_IT_IS, None)?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        Ok(listed.split_whitespace().skip(1).map(str::to_owned).collect())
    }

    /// Moves a branch that nobody has checked out, if it is still where it was.
    ///
    /// # Errors
    /// Returns what git says.
    pub(crate) fn advance(&self, branch: &BranchName, from: &str, to: &str) -> Result<(), Refusal> {
        self.update(&["update-ref", "-m", "pinfold task land", &branch.reference(), to, from])
    }

    /// Makes a branch.
    ///
    /// # Errors
    /// Returns what git says; there must be no such branch.
    pub fn create(&self, branch: &BranchName, commit: &str) -> Result<(), Refusal> {
        let nothing = "0".repeat(commit.len());
        self.update(&["update-ref", "--", &branch.reference(), commit, &nothing])
    }

    /// Removes a branch that is at this commit.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn remove(&self, branch: &BranchName, commit: &str) -> Result<(), Refusal> {
        self.update(&["update-ref", "-d", &branch.reference(), commit])
    }

    /// Returns whether the worktree of a branch has nothing that its commit lacks, and no session works in it.
    ///
    /// # Errors
    /// Returns what kept it from being looked at.
    pub(crate) fn is_committed(
        &self,
        branch: &BranchName,
        host: Host<'_>,
    ) -> Result<bool, Refusal> {
        Dedicated::is_committed(&self.workspace, branch, host).map_err(Refusal::of)
    }

    /// Removes the worktree that was made for a branch of an attempt. Returns why it stays, if it does.
    ///
    /// # Errors
    /// Returns what kept it from being removed.
    pub fn discard_worktree(
        &self,
        branch: &BranchName,
        unsaved: Unsaved,
        host: Host<'_>,
    ) -> Result<Option<String>, Refusal> {
        Dedicated::discard(&self.workspace, branch, unsaved, host).map_err(|error| {
            let hint = error.hint();
            Refusal::of(error).with_hint(hint)
        })
    }

    /// Removes a branch that was made for one check, and its worktree.
    ///
    /// # Errors
    /// Returns what kept them from being removed.
    pub(crate) fn discard(&self, branch: &BranchName, host: Host<'_>) -> Result<(), Refusal> {
        self.discard_worktree(branch, Unsaved::Discard, host)?;
        self.branch(branch).map_or(Ok(()), |at| self.remove(branch, &at))
    }

    /// Returns the branches whose names begin so.
    pub(crate) fn beginning_with(&self, beginning: &str) -> Result<Vec<BranchName>, Refusal> {
        let pattern = format!("refs/heads/{beginning}*");
        let listed = self.host().run(&["for-each-ref", "--format=%(refname)", &pattern], None)?;
        let name = |line: &str| line.strip_prefix("refs/heads/")?.parse().ok();
        Ok(listed.lines().filter_map(name).collect())
    }

    /// Returns the sessions whose branch of this name waits for the user, because it changes what tools run by
    /// themselves.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn waiting(&self, branch: &BranchName) -> Result<Vec<String>, Refusal> {
        let pattern = format!("refs/pinfold/*/heads/{branch}");
        let listed = self.host().run(&["for-each-ref", "--format=%(refname)", &pattern], None)?;
        let session =
            |name: &str| Some(name.strip_prefix("refs/pinfold/")?.split('/').next()?.to_owned());
        Ok(listed.lines().filter_map(session).collect())
    }

    /// Moves the branch of a task to an accepted result, and removes the branch of the attempt. Only forward: what
    /// others put on the branch stays, and so does a branch that is checked out. What the attempt did not commit is no
    /// result of it.
    ///
    /// # Errors
    /// Returns what git says.
    pub(crate) fn publish(
        &self,
        branches: &Branches,
        commit: &str,
        existing: Existing,
    ) -> Result<Published, Refusal> {
        let Branches { result: branch, work: attempt, .. } = branches;
        let keep = |why: &str| {
            let what = format!("branch {branch} {why}; the result is on branch {attempt}");
            Ok(Published::Kept(what))
        };
        // git would move that one, and leave the files of its checkout behind.
        if let Some(other) = self.alias(branch) {
            return keep(&format!("is another name for {other}, so it stays where it is"));
        }
        let (old, worked) = (self.branch(branch), self.branch(attempt));
        // Published before, and its branch may have moved on.
        let is_there = old.as_ref().is_some_and(|old| self.has(old, commit));
        if !is_there {
            if worked.as_deref() != Some(commit) {
                return keep("stays where it is, as the result is not what the attempt committed");
            }
            if self.checkout(branch).is_some() {
                return keep("is checked out, so it stays where it is");
            }
            let moved = match (&old, existing) {
                (None, _) => self.create(branch, commit),
                (Some(_), Existing::Stays) => {
                    return keep("was there before the result, so it stays where it is");
                }
                (Some(old), Existing::Advances) if self.has(commit, old) => {
                    self.update(&["update-ref", "--", &branch.reference(), commit, old])
                }
                (Some(_), Existing::Advances) => return keep("has commits that the result lacks"),
            };
            // Another worker may publish it in the same moment.
            moved.or_else(|said| match self.branch(branch) {
                Some(now) if now == commit => Ok(()),
                _ => Err(said),
            })?;
        }
        // It is gone already if this is repeated. Its worktree stays if submodules in it have commits.
        if worked.as_deref() == Some(commit) && self.checkout(attempt).is_none() {
            let removed = self.remove(attempt, commit);
            removed.or_else(|said| self.branch(attempt).map_or(Ok(()), |_| Err(said)))?;
        }
        Ok(Published::Moved)
    }

    /// Returns the top of the working tree in which a branch is checked out, or a rebase of it is stopped.
    pub(crate) fn checkout(&self, branch: &BranchName) -> Option<PathBuf> {
        let all = worktrees::list(&self.git, &[]).into_iter();
        let mut those = all.filter(|worktree| {
            let git = HostGit { program: &self.program, directory: &worktree.git };
            let head = git.line(&["symbolic-ref", "-q", "HEAD"]);
            let used = head.or_else(|| worktrees::rebased(&worktree.git));
            used.is_some_and(|used| used == branch.reference())
        });
        those.next().map(|worktree| worktree.top)
    }

    /// Returns the reference that a branch is another name for, if it is a symbolic one: git moves that in its place.
    pub(crate) fn alias(&self, branch: &BranchName) -> Option<String> {
        self.host().line(&["symbolic-ref", "-q", &branch.reference()])
    }

    fn update(&self, words: &[&str]) -> Result<(), Refusal> {
        self.host().run(words, None)?;
        Ok(())
    }
}
