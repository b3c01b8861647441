//! A worktree for one branch, next to the main one, that a run works in.
//!
//! Git makes it and removes it without reading a file of it; the files come and are looked at in a
//! throwaway boundary (`files`). It is filled before a session starts, since what is protected in a
//! workspace is found by the scan it at the start.

mod error;
mod files;
mod record;
mod repository;
mod submodules;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_git::refs::shell_word;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{kind_at, open_directory, owner_at};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Spot;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{BranchName, Settings, WorkspaceMode};

use crate::workspace::{Workspace, WorkspaceError};
use record::Record;
use repository::{Repository, Standing};

pub use error::DedicatedError;
pub use files::WorktreeFiles;

/// What says that a command was stopped that will be gone on with (wt-status.c in git).
const STOPPED: [&str; 6] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply"];

/// The commit where a new branch begins, and how that is called.
type Beginning = (String, String);

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

/// Excludes other processes of pinfold's from the worktrees of a repository, which git can list then.
fn alone_in(repository: &Repository, places: &Places) -> io::Result<File> {
    let others = record::exclude_others(places)?;
    repository.clear_unlistable()?;
    Ok(others)
}

/// A worktree that this process works in.
#[derive(Debug)]
pub struct Dedicated {
    repository: Repository,
    branch: BranchName,
    top: PathBuf,
    record: Record,
    places: Places,
    /// Whether it was made just now, and where its branch was made to begin.
    fresh: Option<Option<Beginning>>,
    /// What a user should know of how it was made.
    pub notes: Vec<String>,
}

/// Returns the branch, if the settings want a worktree of its own.
///
/// # Errors
/// Returns an error for a branch without the mode, or the mode without a branch.
fn wanted(settings: &Settings) -> Result<Option<&BranchName>, DedicatedError> {
    let mode = &settings.scalars.workspace_mode;
    match (mode.value == WorkspaceMode::DedicatedWorktree, &settings.scalars.worktree_branch) {
        (true, Some(branch)) => Ok(Some(&branch.value)),
        (true, None) => Err(DedicatedError::NoBranch(mode.origin.to_string())),
        (false, Some(_)) => Err(DedicatedError::OtherMode(mode.value.to_string())),
        (false, None) => Ok(None),
    }
}

/// Returns the worktree's top, if the settings want one and it is there.
///
/// # Errors
/// Returns an error if it was not made yet, or cannot be.
pub(crate) fn existing(
    workspace: &Workspace,
    settings: &Settings,
    host: Host<'_>,
) -> Result<Option<PathBuf>, DedicatedError> {
    let Some(branch) = wanted(settings)? else { return Ok(None) };
    let repository = Repository::of(workspace, host.launcher)?;
    let top = repository.top_for(branch, &host.places.home)?;
    match repository.standing(branch, &top)? {
        Standing::There(_) => Ok(Some(top)),
        Standing::Free | Standing::Gone => Err(DedicatedError::NotMade(top)),
    }
}

impl Dedicated {
    /// Makes the worktree that the settings want, or takes the one that is there. For a process
    /// with one thread.
    ///
    /// # Errors
    /// Returns an error if it cannot be made; then nothing is left of it.
    pub fn open(
        workspace: &Workspace,
        settings: &Settings,
        Host { places, launcher }: Host<'_>,
    ) -> Result<Option<Self>, DedicatedError> {
        let Some(branch) = wanted(settings)?.cloned() else { return Ok(None) };
        let repository = Repository::of(workspace, launcher)?;
        let top = repository.top_for(&branch, &places.home)?;
        let _others = alone_in(&repository, places)?;
        let record = Record::open(places, &top)?;
        let (places, notes) = (places.clone(), Vec::new());
        let mut dedicated = Self { repository, branch, top, record, places, fresh: None, notes };
        if dedicated.record.is_unfinished()? {
            dedicated.repository.clear_unfinished(&dedicated.top)?;
        }
        match dedicated.make() {
            Ok(()) => Ok(Some(dedicated)),
            Err(error) => {
                dedicated.record.leave()?;
                Err(error)
            }
        }
    }

    fn make(&mut self) -> Result<(), DedicatedError> {
        let standing = self.repository.standing(&self.branch, &self.top)?;
        let mut beginning = None;
        let made = match standing {
            // Its index comes last.
            Standing::There(own)
                if own.path().join("index").exists() && self.record.is_being_filled()? =>
            {
                return Ok(self.record.finished()?);
            }
            Standing::There(own)
                if own.path().join("index").exists() || !self.record.is_unfinished()? =>
            {
                return Ok(());
            }
            Standing::There(own) => self.commit_of(&own).and_then(|at| self.fill(&own, &at)),
            Standing::Free | Standing::Gone => {
                beginning = self.beginning()?;
                self.record.making()?;
                self.add(&standing, beginning.as_ref())
                    .and_then(|()| Ok(self.record.filling()?))
                    .and_then(|()| self.fill_new())
            }
        };
        match made {
            Ok(notes) => {
                let branch = &self.branch;
                let how = match &beginning {
                    Some((_, from)) => format!("branch {branch} is new, from {from}"),
                    None => format!("of branch {branch}"),
                };
                self.notes.push(format!("made the worktree {} ({how})", Escaped(&self.top)));
                self.notes.extend(notes);
                self.fresh = Some(beginning);
                Ok(self.record.finished()?)
            }
            Err(error) => {
                self.undo(beginning.as_ref());
                self.record.forget()?;
                Err(error)
            }
        }
    }

    /// Has git make the worktree without files, and the branch if it is to begin somewhere.
    fn add(
        &self,
        standing: &Standing,
        beginning: Option<&Beginning>,
    ) -> Result<(), DedicatedError> {
        let failed = |source| DedicatedError::Make { top: self.top.clone(), source };
        let top = self.top.to_str().ok_or_else(|| failed("its name is not UTF-8".into()))?;
        let mut words = vec!["worktree", "add", "-q", "--no-checkout"];
        if *standing == Standing::Gone {
            words.push("--force");
        }
        match beginning {
            Some((commit, _)) => words.extend(["-b", self.branch.as_str(), "--", top, commit]),
            None => words.extend(["--", top, self.branch.as_str()]),
        }
        // What is checked out in part where the caller stands is so in a new worktree, too.
        let git = self.repository.git_at(&self.repository.here);
        git.run(&words, None).map(|_| ()).map_err(|error| failed(error.into()))
    }

    /// Returns where the branch begins if it is missing: where the only remote that has it has it, or where the caller is.
    fn beginning(&self) -> Result<Option<Beginning>, DedicatedError> {
        let repository = &self.repository;
        let named = repository.named(&self.branch);
        if named.first().is_some_and(|name| *name == self.branch.reference()) {
            return Ok(None);
        }
        if let [name] = named.as_slice()
            && let Some(commit) = repository.commit(&repository.git, name)
        {
            return Ok(Some((commit, name.trim_start_matches("refs/remotes/").to_owned())));
        }
        let commit = repository.commit(&repository.here, "HEAD").ok_or(DedicatedError::NoCommit)?;
        Ok(Some((commit, "HEAD".to_owned())))
    }

    /// Fills what git has just added.
    fn fill_new(&self) -> Result<Vec<String>, DedicatedError> {
        let own = self.repository.listed(&self.top).ok_or_else(|| self.unknown())?.git;
        self.fill(&own, &self.commit_of(&own)?)
    }

    /// Returns the commit that a worktree is at.
    fn commit_of(&self, own: &Anchor) -> Result<String, DedicatedError> {
        self.repository.commit(own, "HEAD").ok_or_else(|| self.unknown())
    }

    /// Returns the error for a worktree that git does not know although it made it.
    fn unknown(&self) -> DedicatedError {
        self.unfilled("git does not know it".into())
    }

    /// Returns the error for files that cannot be written.
    fn unfilled(&self, source: Refusal) -> DedicatedError {
        DedicatedError::Files { branch: self.branch.clone(), top: self.top.clone(), source }
    }

    /// Writes the files of a commit. Returns what is not as a user would have it.
    fn fill(&self, own: &Anchor, commit: &str) -> Result<Vec<String>, DedicatedError> {
        let files = self.files(own);
        files.prepare(&self.places, commit)?;
        let filled = files.fill(commit).map_err(|source| {
            if files.lacks_objects() {
                DedicatedError::Partial {
                    branch: self.branch.clone(),
                    top: self.top.clone(),
                    root: self.repository.root.clone(),
                    source,
                }
            } else {
                self.unfilled(source)
            }
        });
        files.clear()?;
        filled
    }

    fn files(&self, own: &Anchor) -> WorktreeFiles {
        WorktreeFiles {
            git: self.repository.git.path().to_owned(),
            own: own.path().to_owned(),
            top: self.top.clone(),
            out: self.record.files(),
        }
    }

    /// Returns the workspace in it, as deep as the caller stands in this one.
    ///
    /// # Errors
    /// Returns an error if what lies there is no longer a worktree of the repository.
    pub fn workspace(&self, project: &Workspace) -> Result<Workspace, WorkspaceError> {
        project.in_worktree(&self.top)
    }

    /// Takes back what was made just now, for a run that does not come about.
    ///
    /// # Errors
    /// Returns the error of writing its record.
    pub fn take_back(mut self) -> Result<(), DedicatedError> {
        let _others = alone_in(&self.repository, &self.places)?;
        if let Some(beginning) = self.fresh.take().filter(|_| self.record.is_alone()) {
            self.undo(beginning.as_ref());
            self.record.forget()?;
        }
        Ok(self.record.leave()?)
    }

    /// Takes back what was made; the error that is reported says why.
    fn undo(&self, beginning: Option<&Beginning>) {
        let _ = self.remove();
        if let Some((commit, _)) = beginning {
            let delete = ["update-ref", "-d", &self.branch.reference(), commit];
            let _ = self.repository.host().run(&delete, None);
        }
    }

    fn remove(&self) -> Result<(), Refusal> {
        let top = self.top.to_str().ok_or("its name is not UTF-8")?;
        // Package managers leave directories that their owner cannot change; git would stop half-way.
        let closed = ["find", ".", "-type", "d", "!", "-perm", "-700"];
        let open = ["-exec", "chmod", "u+rwx", "{}", ";"];
        let argv: Vec<OsString> = closed.iter().chain(&open).map(Into::into).collect();
        // What cannot be opened git names.
        if let Ok(opened) = open_directory(&self.top) {
            let spot = Spot { path: &self.top, opened: &opened };
            let _ = self.repository.program.launcher().run_in(
                spot,
                owner_at(&opened, "."),
                &argv,
                &[],
                None,
            );
        }
        // Without --force git would look at its files here, with the repository's configuration.
        let words = ["worktree", "remove", "--force", "--", top];
        self.repository.host().run(&words, None)?;
        Ok(())
    }

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

#[cfg(test)]
mod tests;
