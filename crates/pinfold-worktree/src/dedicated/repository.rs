//! The repository that a worktree belongs to, and what stands where the worktree is to be.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_git::host_git::HostGit;
use pinfold_git::worktrees::{self, CheckedOut, Worktree};
use pinfold_git::{pointer, special_files};
use pinfold_host::anchor::Anchor;
use pinfold_host::launcher::{HostProgram, Launcher};
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::BranchName;

use super::error::DedicatedError;
use crate::workspace::{Workspace, git_outside};

/// A file's name is at most this long (`NAME_MAX` in Linux), bytes.
const LONGEST: usize = 255;

/// What git writes into `locked` while it makes a worktree (`add_worktree` in its
/// builtin/worktree.c).
const INITIALIZING: &str = "initializing";

/// A repository with what the caller has checked out of it.
#[derive(Debug)]
pub(super) struct Repository {
    /// The git directory that all worktrees share.
    pub(super) git: Anchor,
    /// The git directory of the worktree that the caller stands in.
    pub(super) here: Anchor,
    /// The top of the main worktree, or the bare repository itself.
    pub(super) root: PathBuf,
    pub(super) program: HostProgram,
}

/// What is where the worktree is to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nothing, or an empty directory.
    Free,
    /// Nothing, but git still has it in its list.
    Gone,
    /// The worktree, with this git directory of its own.
    There(Anchor),
}

impl Repository {
    /// Returns the one that a workspace belongs to.
    ///
    /// # Errors
    /// Returns an error if none is there, or no git to look at it with.
    pub(super) fn of(workspace: &Workspace, launcher: &Launcher) -> Result<Self, DedicatedError> {
        let top = workspace.root.as_path();
        let dot = top.join(".git");
        let none = || DedicatedError::NoRepository(top.to_owned());
        let is_file = fs::symlink_metadata(&dot).is_ok_and(|entry| entry.is_file());
        let here = match fs::symlink_metadata(&dot) {
            Ok(_) if is_file => pointer::gitdir(&dot).ok_or_else(none)?,
            Ok(_) => dot,
            Err(_) => top.to_owned(),
        };
        let git = workspace.git_outside.as_ref().map_or(here.as_path(), HostPath::as_path);
        let (git, here) = (real(git).ok_or_else(none)?, real(&here).ok_or_else(none)?);
        if !(git.join("HEAD").is_file() && git.join("objects").is_dir()) {
            return Err(none());
        }
        let writable = [top.to_owned(), git.clone()];
        let program = launcher.find("git", &writable).map_err(DedicatedError::NoGit)?;
        special_files::refuse(&git)?;
        let git = Anchor::of(&git)?;
        let main = worktrees::list(&git, &[(top.to_owned(), here.clone())])
            .into_iter()
            .find(|worktree| worktree.head == "HEAD");
        let path = git.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        let root = match main {
            Some(main) => real(&main.top).ok_or_else(none)?,
            None if is_hidden => path.parent().ok_or_else(none)?.to_owned(),
            None => path.to_owned(),
        };
        let here = Anchor::of(&here)?;
        Ok(Self { git, here, root, program })
    }

    /// Returns git for one of its directories.
    pub(super) fn git_at<'a>(&'a self, directory: &'a Anchor) -> HostGit<'a> {
        HostGit { program: &self.program, directory }
    }

    /// Returns git for the repository.
    pub(super) fn host(&self) -> HostGit<'_> {
        self.git_at(&self.git)
    }

    /// Returns where the worktree of a branch is: next to the main one.
    ///
    /// # Errors
    /// Returns an error for a name that no file can have, or that is the caller's home.
    pub(super) fn top_for(
        &self,
        branch: &BranchName,
        home: &Path,
    ) -> Result<PathBuf, DedicatedError> {
        let none = || DedicatedError::NoRepository(self.root.clone());
        let (above, name) = self.root.parent().zip(self.root.file_name()).ok_or_else(none)?;
        let stem = Path::new(name).file_stem().filter(|_| {
            // A bare repository is called so by custom.
            self.root == self.git.path() && self.root.extension().is_some_and(|it| it == "git")
        });
        let mut name = stem.unwrap_or(name).to_owned();
        name.push("-");
        name.push(branch.flat());
        let top = above.join(&name);
        if name.len() > LONGEST {
            return Err(DedicatedError::TooLong(top));
        }
        if real(home).is_some_and(|home| home.starts_with(&top)) {
            return Err(DedicatedError::TooWide(top));
        }
        Ok(top)
    }

    /// Returns the linked worktree that git has at this path in its list.
    pub(super) fn listed(&self, top: &Path) -> Option<Worktree> {
        let all = worktrees::list(&self.git, &[]).into_iter();
        let mut linked = all.filter(|worktree| worktree.head != "HEAD");
        linked.find(|worktree| is_at(&worktree.top, top))
    }

    /// Looks where the worktree is to be.
    ///
    /// # Errors
    /// Returns an error if the branch is checked out elsewhere, or something else is there.
    pub(super) fn standing(
        &self,
        branch: &BranchName,
        top: &Path,
    ) -> Result<Standing, DedicatedError> {
        let listed = self.listed(top);
        let checked_out = worktrees::checked_out(self.host())
            .map_err(|source| DedicatedError::Unlisted { root: self.root.clone(), source })?;
        self.check_free(branch, &checked_out, listed.as_ref().map(|_| top))?;
        let taken = || DedicatedError::Taken(top.to_owned());
        let Ok(entry) = fs::symlink_metadata(top) else {
            return Ok(if listed.is_some() { Standing::Gone } else { Standing::Free });
        };
        if !entry.is_dir() {
            return Err(taken());
        }
        let Some(listed) = listed else {
            let is_empty = fs::read_dir(top)?.next().is_none();
            return if is_empty { Ok(Standing::Free) } else { Err(taken()) };
        };
        // Its own word counts too: what lies there may have been replaced.
        let shared = git_outside(top).ok().flatten();
        if shared.as_deref() != Some(self.git.path()) {
            return Err(taken());
        }
        let here = checked_out.into_iter().find(|other| is_at(&other.top, top));
        let head = here.and_then(|here| here.branch);
        if head.as_ref() == Some(&branch.reference()) {
            return Ok(Standing::There(listed.git));
        }
        let other = head.map_or_else(
            || "no branch".to_owned(),
            |head| format!("branch {}", head.trim_start_matches("refs/heads/")),
        );
        Err(DedicatedError::OtherBranch { top: top.to_owned(), other, branch: branch.clone() })
    }

    /// Checks that no working tree but `own` has the branch.
    fn check_free(
        &self,
        branch: &BranchName,
        checked_out: &[CheckedOut],
        own: Option<&Path>,
    ) -> Result<(), DedicatedError> {
        let reference = branch.reference();
        for (number, other) in checked_out.iter().enumerate() {
            let is_own = own.is_some_and(|own| is_at(&other.top, own));
            if is_own || other.branch.as_ref() != Some(&reference) {
                continue;
            }
            // The first is the main one, and git may call its git directory so.
            let top = if number == 0 { &self.root } else { &other.top };
            let (branch, top) = (branch.clone(), top.clone());
            return Err(if top.is_dir() {
                DedicatedError::CheckedOut { branch, top }
            } else {
                DedicatedError::CheckedOutNowhere { branch, top }
            });
        }
        Ok(())
    }

    /// Removes what a process left that was ended while git made this worktree: nobody has worked
    /// in it, and no file was checked out.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(super) fn clear_unfinished(&self, top: &Path) -> std::io::Result<()> {
        let entries =
            fs::read_dir(self.git.path().join("worktrees")).into_iter().flatten().flatten();
        for own in entries.map(|entry| entry.path()) {
            let word = pointer::line(&own.join("locked"), b"").unwrap_or_default();
            let is_this = match pointer::line(&own.join("gitdir"), b"") {
                Some(file) => file == top.join(".git"),
                None => own.file_name() == top.file_name(),
            };
            let is_empty = fs::read_dir(&own).is_ok_and(|mut entries| entries.next().is_none());
            if is_this && (is_empty || word == Path::new(INITIALIZING)) {
                fs::remove_dir_all(&own)?;
            }
        }
        let mut names = fs::read_dir(top).into_iter().flatten().flatten();
        let is_all =
            names.next().is_some_and(|it| it.file_name() == ".git") && names.next().is_none();
        // With its git directory, or without one: nothing but the pointer was made.
        if is_all && self.listed(top).is_none() {
            fs::remove_file(top.join(".git"))?;
        }
        Ok(())
    }

    /// Removes what any process left that was ended while git made a worktree, and with which git lists no worktree, and has no
    /// `git gc`, `git branch -a` or `git worktree add` in this repository: an empty `commondir`. git fills it at once, so one that stays
    /// empty is nobody's. Processes of other machines are not excluded, and may be slow.
    ///
    /// # Errors
    /// Returns the file system's error.
    pub(super) fn clear_unlistable(&self) -> std::io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        const PAUSE: Duration = Duration::from_millis(50);
        let is_unlistable = |own: &Path| {
            let word = pointer::line(&own.join("locked"), b"").unwrap_or_default();
            let common = fs::symlink_metadata(own.join("commondir"));
            word == Path::new(INITIALIZING) && common.is_ok_and(|it| it.is_file() && it.len() == 0)
        };
        let entries = fs::read_dir(self.git.path().join("worktrees"));
        let all = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let mut found: Vec<PathBuf> = all.filter(|own| is_unlistable(own)).collect();
        let began = Instant::now();
        while !found.is_empty() && began.elapsed() < PATIENCE {
            std::thread::sleep(PAUSE);
            found.retain(|own| is_unlistable(own));
        }
        found.iter().try_for_each(fs::remove_dir_all)
    }

    /// Returns the references with a branch's name: the branch first if there is one, then what remotes have. Empty where git
    /// does not say.
    pub(super) fn named(&self, branch: &BranchName) -> Vec<String> {
        let (own, remote) = (branch.reference(), format!("refs/remotes/*/{branch}"));
        let words = ["for-each-ref", "--format=%(refname)", &own, &remote];
        let listed = self.host().run(&words, None).unwrap_or_default();
        listed.lines().map(str::to_owned).collect()
    }

    /// Returns the commit that a worktree's git directory or a reference stands for.
    pub(super) fn commit(&self, directory: &Anchor, name: &str) -> Option<String> {
        let name = format!("{name}^{{commit}}");
        self.git_at(directory).line(&["rev-parse", "-q", "--verify", &name])
    }
}

/// Returns whether a path is a place, or leads to it.
fn is_at(path: &Path, place: &Path) -> bool {
    path == place || real(path).is_some_and(|it| it == place)
}

fn real(path: &Path) -> Option<PathBuf> {
    fs::canonicalize(path).ok()
}
