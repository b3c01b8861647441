//! `pinfold accept`: takes branches of a session that waited for the user to look at them.
//!
//! A branch waits below `refs/pinfold/<session>/heads` if its commits change what tools run by
//! themselves. To accept it moves the branch of the same name forward, as `git merge --ff-only`
//! would, except that the files of the working tree stay: the session has written them already, and
//! `pinfold adopt` puts back what was set aside of them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use pinfold_git::host_git::HostGit;
use pinfold_git::pointer;
use pinfold_git::refs::{is_component, shell_word};
use pinfold_git::staging::Staging;
use pinfold_git::worktrees;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::directories::Places;
use pinfold_host::launcher::{HostProgram, Launcher, lend};
use pinfold_host::sessions::lock_saying;
use pinfold_policy::path::HostPath;
use pinfold_terminal::notify;
use pinfold_worktree::workspace::git_outside;

/// What the copy of an index is called by. The session may be live, and has a copy of its own.
const STAGING: &str = "accept";

/// A branch that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The session that made it.
    pub session: String,
    /// The branch's name, without `refs/heads`.
    pub branch: String,
    commit: String,
}

/// Waits until nobody else of this user accepts branches, nor a program that an interrupted `accept` has started.
///
/// # Errors
/// Returns the file system's error, with the path.
pub fn exclude_others(places: &Places) -> io::Result<Arc<File>> {
    Places::make_private(&places.state)?;
    let file = lock_saying(&places.state.join("accept.lock"), || {
        notify!("pinfold: waiting for another process that accepts or adopts");
    });
    let file = Arc::new(file?);
    lend(&file);
    Ok(file)
}

/// A repository of the host's, with what waits in it.
#[derive(Debug)]
pub struct Repository {
    program: HostProgram,
    common: Anchor,
}

impl Repository {
    /// Returns the one whose working tree is at this path.
    ///
    /// # Errors
    /// Returns that it or git is missing.
    pub fn at(top: &HostPath, launcher: &Launcher) -> Result<Self, Refusal> {
        let own = [top.as_path().to_owned()];
        let program = launcher.find("git", &own).map_err(Refusal::about("no git can be used"))?;
        let none = || format!("{top} is not a git repository");
        let dot = top.as_path().join(".git");
        let common = match git_outside(top.as_path()).map_err(Refusal::of)? {
            Some(outside) => outside,
            None if dot.is_dir() => dot,
            None => pointer::gitdir(&dot).ok_or_else(none)?,
        };
        Ok(Self { program, common: Anchor::of(&common).map_err(|_| none())? })
    }

    fn git(&self) -> HostGit<'_> {
        HostGit { program: &self.program, directory: &self.common }
    }

    /// Returns the branches that wait.
    ///
    /// # Errors
    /// Returns what git says.
    pub fn waiting(&self) -> Result<Vec<Waiting>, Refusal> {
        let format = "--format=%(objectname) %(refname)";
        let listed = self.git().run(&["for-each-ref", format, "refs/pinfold"], None)?;
        let waiting = |line: &str| {
            let (commit, name) = line.split_once(' ')?;
            let (session, branch) = name.strip_prefix("refs/pinfold/")?.split_once("/heads/")?;
            let is_branch = branch.split('/').all(is_component) && is_component(session);
            let (session, branch, commit) = (session.into(), branch.into(), commit.into());
            is_branch.then_some(Waiting { session, branch, commit })
        };
        Ok(listed.lines().filter_map(waiting).collect())
    }

    /// Moves a branch to where it waits. Others must be excluded.
    ///
    /// # Errors
    /// Returns why it stays where it is, and the command that merges it.
    pub fn accept(&self, waiting: &Waiting) -> Result<(), Refusal> {
        let Waiting { session, branch, commit } = waiting;
        let (name, kept) = (format!("refs/heads/{branch}"), kept(waiting));
        let is_rebased = |git: &Anchor| worktrees::rebased(git).as_deref() == Some(&name);
        if self.working_trees()?.iter().any(is_rebased) {
            return Err(
                format!("a rebase of {branch} is stopped; finish or abort that first").into()
            );
        }
        let git = self.git();
        let old = git.line(&["rev-parse", "-q", "--verify", &name]);
        let reason = format!("pinfold accept {session}");
        if let Some(old) = &old {
            git.run(&["merge-base", "--is-ancestor", old, commit], None).map_err(|_| {
                let kept = shell_word(&kept);
                format!("{branch} was moved since; `git merge {kept}` merges it")
            })?;
        }
        let previous = old.as_deref().unwrap_or("");
        let update = ["update-ref", "-m", &reason, &name, commit, previous];
        match self.checked_out(&name)? {
            None => {
                git.run(&update, None)?;
            }
            Some(worktree) => {
                let own = HostGit { program: &self.program, directory: &worktree };
                let staging = Staging::copy(own, &self.common, STAGING)?;
                staging.merge(old.as_deref(), commit)?;
                staging.install(|| own.run(&update, None).map(|_| ()))?;
            }
        }
        git.run(&["update-ref", "-d", &kept, commit], None)?;
        Ok(())
    }

    /// Returns the git directory of the working tree in which a branch is checked out.
    fn checked_out(&self, name: &str) -> Result<Option<Anchor>, Refusal> {
        Ok(self.working_trees()?.into_iter().find(|directory| {
            let git = HostGit { program: &self.program, directory };
            git.line(&["symbolic-ref", "-q", "HEAD"]).as_deref() == Some(name)
        }))
    }

    /// Returns the git directories of the working trees.
    fn working_trees(&self) -> Result<Vec<Anchor>, Refusal> {
        let mut all = vec![self.common.clone()];
        let linked = std::fs::read_dir(self.common.path().join("worktrees"));
        for entry in linked.into_iter().flatten().flatten() {
            let path = Path::new("worktrees").join(entry.file_name());
            all.push(self.common.below(&path)?);
        }
        Ok(all)
    }
}

fn kept(Waiting { session, branch, .. }: &Waiting) -> String {
    format!("refs/pinfold/{session}/heads/{branch}")
}
