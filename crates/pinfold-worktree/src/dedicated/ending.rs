//! What becomes of a worktree at the end of its run: it is removed if nothing is lost with it.

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use pinfold_git::refs::shell_word;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{kind_at, open_directory};
use pinfold_host::launcher::Spot;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::BranchName;

use super::record::Record;
use super::repository::{Repository, Standing};
use super::{Dedicated, DedicatedError, alone_in, submodules};
use crate::workspace::Workspace;

/// What says that a command was stopped that will be gone on with (wt-status.c in git).
const STOPPED: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply"];

/// What becomes of changes in a worktree that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsaved {
    /// They are removed with it.
    Discard,
    /// Those of files are removed with it. It stays because of commits of submodules.
    DiscardFiles,
    /// It stays because of them.
    Keep,
}

/// Why a worktree stays with which commits would be lost.
const OF_SUBMODULES: &str = "submodules in it have commits that no remote of theirs has";

/// How long a look at a worktree may take that saves a session. The session takes longer.
const LOOKING: Duration = Duration::from_secs(5);

/// How long the looks at a worktree may take together that decide whether it is removed. Other worktrees wait for them, too, and
/// reading the files of a large repository takes longer.
const DECIDING: Duration = Duration::from_secs(20);

impl Dedicated {
    /// Removes the worktree if it was made for a run, no other session works in it, and nothing is
    /// lost with it. Returns what became of it.
    ///
    /// # Errors
    /// Returns the error of reading and writing its record.
    pub fn end(mut self) -> Result<Option<String>, DedicatedError> {
        let _others = alone_in(&self.repository, &self.places)?;
        if !self.record.is_alone() {
            return Ok(None);
        }
        let outcome = if self.top.exists() && self.record.is_made()? {
            Some(self.remove_or_keep())
        } else {
            None
        };
        self.record.forget()?;
        self.record.leave()?;
        Ok(outcome)
    }

    /// Removes the worktree of a branch that the caller made for itself alone. Returns why it stays, if it does.
    ///
    /// # Errors
    /// Returns an error if something else is there, or if git cannot remove it.
    pub fn discard(
        workspace: &Workspace,
        branch: &BranchName,
        unsaved: Unsaved,
        Host { places, launcher }: Host<'_>,
    ) -> Result<Option<String>, DedicatedError> {
        let repository = Repository::of(workspace, launcher)?;
        let top = repository.top_for(branch, &places.home)?;
        let _others = alone_in(&repository, places)?;
        let Standing::There(own) = repository.standing(branch, &top)? else { return Ok(None) };
        let record = Record::open(places, &top)?;
        let (branch, places) = (branch.clone(), places.clone());
        let mut dedicated =
            Self { repository, branch, top, record, places, fresh: None, notes: Vec::new() };
        let why = dedicated.decide(|it| it.why_not_discarded(&own, unsaved));
        if why.is_none() {
            let top = dedicated.top.clone();
            dedicated.remove().map_err(|source| DedicatedError::Remove { top, source })?;
            dedicated.record.forget()?;
        }
        let top = dedicated.top.clone();
        dedicated.record.leave()?;
        Ok(why.map(|why| format!("the worktree {} stays: {why}", Escaped(&top))))
    }

    /// Returns why it is not discarded, if there is a reason.
    fn why_not_discarded(&self, own: &Anchor, unsaved: Unsaved) -> Option<String> {
        match (self.record.is_alone(), unsaved) {
            (false, _) => Some("a session works in it".to_owned()),
            (true, Unsaved::Discard) => None,
            (true, Unsaved::DiscardFiles | Unsaved::Keep)
                if submodules::have_commits(own, &self.repository.program) =>
            {
                Some(OF_SUBMODULES.to_owned())
            }
            (true, Unsaved::DiscardFiles) => None,
            (true, Unsaved::Keep) => match self.has_unsaved(own) {
                Ok(false) => None,
                Ok(true) => Some("it has changes that are not committed".to_owned()),
                Err(why) => Some(why.to_string()),
            },
        }
    }

    /// Returns what a look comes to, for which git has only the time to decide whether the worktree is removed.
    fn decide<T>(&mut self, look: impl FnOnce(&Self) -> T) -> T {
        let deciding = self.repository.program.within(DECIDING);
        let program = std::mem::replace(&mut self.repository.program, deciding);
        let came_to = look(self);
        self.repository.program = program;
        came_to
    }

    /// Returns whether the worktree of a branch is there, has nothing that the branch's commit lacks, and no session works in it.
    /// The look ends after 5 s: other worktrees wait for it, and a session can make it long.
    ///
    /// # Errors
    /// Returns an error if something else is there, or if it cannot be looked at.
    pub fn is_committed(
        workspace: &Workspace,
        branch: &BranchName,
        Host { places, launcher }: Host<'_>,
    ) -> Result<bool, DedicatedError> {
        let mut repository = Repository::of(workspace, launcher)?;
        let top = repository.top_for(branch, &places.home)?;
        let _others = alone_in(&repository, places)?;
        repository.program = repository.program.within(LOOKING);
        let Standing::There(own) = repository.standing(branch, &top)? else { return Ok(false) };
        let record = Record::open(places, &top)?;
        let (branch, places) = (branch.clone(), places.clone());
        let dedicated =
            Self { repository, branch, top, record, places, fresh: None, notes: Vec::new() };
        let is_committed =
            dedicated.record.is_alone() && matches!(dedicated.has_unsaved(&own), Ok(false));
        dedicated.record.leave()?;
        Ok(is_committed)
    }

    /// Returns whether something in it is not in the commit that its branch is at.
    fn has_unsaved(&self, own: &Anchor) -> Result<bool, Refusal> {
        let commit = self.repository.commit(own, "HEAD").ok_or("it has no commit")?;
        Ok(!self.is_clean(own, &commit)?)
    }

    /// Returns what became of it.
    fn remove_or_keep(&mut self) -> String {
        let removed = self.decide(Self::why_it_stays);
        let top = Escaped(&self.top);
        let removed = removed.and_then(|why| match why {
            None => self.remove().map(|()| None),
            Some(why) => Ok(Some(why)),
        });
        match removed.unwrap_or_else(|why| Some(why.to_string())) {
            None => format!("removed the worktree {top}: nothing in it was new"),
            Some(why) => {
                let root = shell_word(&self.repository.root.to_string_lossy());
                let path = shell_word(&self.top.to_string_lossy());
                let command = format!("git -C {root} worktree remove {path}");
                format!("kept the worktree {top}: {why}; remove it with `{command}`")
            }
        }
    }

    /// Returns why it is not removed, if there is a reason.
    fn why_it_stays(&self) -> Result<Option<String>, Refusal> {
        let repository = &self.repository;
        let Some(own) = repository.listed(&self.top).map(|it| it.git) else {
            return Ok(Some("git does not know it any more".to_owned()));
        };
        let directory = own.open()?;
        if kind_at(&directory, "locked").is_some() {
            return Ok(Some("it is locked".to_owned()));
        }
        if STOPPED.iter().any(|name| kind_at(&directory, name).is_some()) {
            return Ok(Some("a merge or the like is not finished".to_owned()));
        }
        let Some(commit) = repository.commit(&own, "HEAD") else {
            return Ok(Some("it has no commit".to_owned()));
        };
        if !self.is_merged(&own, &commit)? {
            return Ok(Some("it has commits that no other branch has".to_owned()));
        }
        if submodules::have_commits(&own, &repository.program) {
            return Ok(Some(OF_SUBMODULES.to_owned()));
        }
        let is_clean = self.is_clean(&own, &commit)?;
        Ok((!is_clean).then(|| "it has changes that are not committed".to_owned()))
    }

    /// Returns whether another branch, or what is checked out in the main worktree, has the commit.
    fn is_merged(&self, own: &Anchor, commit: &str) -> Result<bool, Refusal> {
        let git = self.repository.host();
        let branch = self.repository.git_at(own).line(&["symbolic-ref", "-q", "HEAD"]);
        let contains = format!("--contains={commit}");
        let words = ["for-each-ref", "--format=%(refname)", &contains, "refs/heads"];
        let listed = git.run(&words, None)?;
        if listed.lines().any(|name| Some(name) != branch.as_deref()) {
            return Ok(true);
        }
        let is_detached = git.line(&["symbolic-ref", "-q", "HEAD"]).is_none();
        Ok(is_detached && git.run(&["merge-base", "--is-ancestor", commit, "HEAD"], None).is_ok())
    }

    /// Asks in a process of its own: a boundary starts from one with one thread.
    fn is_clean(&self, own: &Anchor, commit: &str) -> Result<bool, Refusal> {
        let files = self.files(own);
        files.prepare(&self.places, commit)?;
        let program = std::env::current_exe()?;
        let mut argv: Vec<OsString> = vec![program.into(), "look-at-worktree".into()];
        argv.extend([&files.git, &files.own, &files.top, &files.out].map(|path| path.into()));
        argv.push(commit.into());
        let launcher = self.repository.program.launcher();
        let output = open_directory(&files.out).map_err(io::Error::from).and_then(|opened| {
            launcher.run_in(Spot { path: &files.out, opened: &opened }, None, &argv, &[], None)
        });
        files.clear()?;
        let output = output?;
        match output.code {
            Some(0) => Ok(output.stdout.as_slice() == b"clean\n"),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(Refusal::new(said.trim().escape_debug()))
            }
        }
    }
}
