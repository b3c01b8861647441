//! A worktree for one branch, next to the main one, that a run works in.
//!
//! Git makes it and removes it without reading a file of it; the files come and are looked at in a
//! throwaway boundary (`files`). It is filled before a session starts, since what is protected in a
//! workspace is found by the scan it at the start.

mod ending;
mod error;
mod files;
mod record;
mod repository;
mod submodules;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{open_directory, owner_at};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Spot;
use pinfold_host::{Host, Refusal};
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::{BranchName, Settings, WorkspaceMode};

use crate::workspace::{Workspace, WorkspaceError};
use record::Record;
use repository::{Repository, Standing};

pub use ending::Unsaved;
pub use error::DedicatedError;
pub use files::WorktreeFiles;

/// The commit where a new branch begins, and how that is called.
type Beginning = (String, String);

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
}

#[cfg(test)]
mod tests;
