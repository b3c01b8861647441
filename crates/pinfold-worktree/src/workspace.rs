//! Which directory a run works in, and what git keeps elsewhere for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_git::config::Config;
use pinfold_git::pointer::line;
use pinfold_host::Host;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_policy::path::{HostPath, PathError};
use pinfold_policy::settings::{Settings, WorkspaceMode};
use thiserror::Error;

use crate::dedicated::{self, DedicatedError};

/// What the grant of a git directory is called that lies outside the workspace and belongs to it.
pub const GIT_OUTSIDE: &str = "git directory";

/// Why there is no workspace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The current directory was removed or cannot be reached.
    #[error("the current directory does not exist any more, or cannot be reached: {0}")]
    Gone(io::Error),
    /// Granting it would grant everything.
    #[error("{path} is {what}: granting it to an agent would grant nearly everything in it")]
    TooWide {
        path: String,
        /// What it is.
        what: &'static str,
    },
    /// A `.git` file leads to a directory that does not lead back.
    #[error(
        "{file} says that its git directory is {directory}, which does not name this worktree in \
         return: it would be granted on the repository's word alone"
    )]
    NotMutual {
        /// The `.git` file.
        file: String,
        /// Where it leads.
        directory: String,
    },
    /// There is no worktree for the branch.
    #[error(transparent)]
    Dedicated(#[from] DedicatedError),
    /// A path that cannot be named.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl WorkspaceError {
    /// Returns the hint.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Gone(_) => Some("change into a directory that exists".to_owned()),
            Self::TooWide { .. } => Some(
                "change into a project's directory, or make an empty one to work in".to_owned(),
            ),
            Self::NotMutual { .. } => {
                Some("run `git worktree repair` in the main worktree if it is your own".to_owned())
            }
            Self::Dedicated(error) => error.hint(),
            Self::Path(_) => None,
        }
    }
}

/// Where a run works.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The granted directory: the worktree's root, or the current directory outside of git.
    pub root: HostPath,
    /// The current directory, in the root.
    pub cwd: HostPath,
    /// The git directory outside the root that a linked worktree or a submodule needs.
    pub git_outside: Option<HostPath>,
    /// Whether it is empty and gone with the session: nothing of the host's is granted for it.
    pub is_scratch: bool,
}

impl Workspace {
    /// Finds the workspace of the current directory.
    ///
    /// # Errors
    /// Returns an error for a directory that is gone or too wide, or a `.git` file that cannot be
    /// believed.
    pub fn find(home: &Path) -> Result<Self, WorkspaceError> {
        let cwd = std::env::current_dir().map_err(WorkspaceError::Gone)?;
        Self::around(&cwd, home)
    }

    /// Finds the workspace around a directory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::find`].
    pub fn around(directory: &Path, home: &Path) -> Result<Self, WorkspaceError> {
        let cwd = fs::canonicalize(directory).map_err(WorkspaceError::Gone)?;
        let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
        // A repository of dotfiles at home is not the project that somebody works in below it.
        let narrow = |path: &&Path| !home.starts_with(path);
        let top = cwd.ancestors().take_while(narrow).find(|path| is_worktree(path));
        let root = top.unwrap_or(&cwd);
        if home.starts_with(root) {
            let what =
                if root == home { "your home directory" } else { "above your home directory" };
            return Err(WorkspaceError::TooWide { path: root.display().to_string(), what });
        }
        if root.parent().is_none() {
            let path = root.display().to_string();
            return Err(WorkspaceError::TooWide { path, what: "the root directory" });
        }
        let git_outside = git_outside(root)?.map(HostPath::new).transpose()?;
        let (root, cwd) = (HostPath::new(root)?, HostPath::new(&cwd)?);
        Ok(Self { root, cwd, git_outside, is_scratch: false })
    }

    /// Returns an empty one.
    #[must_use]
    pub fn scratch(root: HostPath) -> Self {
        Self { cwd: root.clone(), root, git_outside: None, is_scratch: true }
    }

    /// Returns the workspace that the settings make of it. An empty one lies where the caller stands, so
    /// that paths mean the same inside as outside.
    ///
    /// # Errors
    /// Returns an error for a worktree that was not made yet ([`crate::dedicated::Dedicated::open`]
    /// does), or cannot be.
    pub fn in_mode(self, settings: &Settings, host: Host<'_>) -> Result<Self, WorkspaceError> {
        if let Some(top) = dedicated::existing(&self, settings, host)? {
            return self.in_worktree(&top);
        }
        match settings.scalars.workspace_mode.value {
            WorkspaceMode::ScratchMount => Ok(Self::scratch(self.cwd)),
            _ => Ok(self),
        }
    }

    /// Moves to a worktree of the same repository, as deep in it as the caller stands in this one.
    pub(crate) fn in_worktree(&self, top: &Path) -> Result<Self, WorkspaceError> {
        let below = self.cwd.as_path().strip_prefix(self.root.as_path());
        let cwd = below
            .ok()
            .and_then(|below| fs::canonicalize(top.join(below)).ok())
            .filter(|cwd| cwd.starts_with(top) && cwd.is_dir());
        let git_outside = git_outside(top)?.map(HostPath::new).transpose()?;
        let (root, cwd) = (HostPath::new(top)?, HostPath::new(cwd.as_deref().unwrap_or(top))?);
        Ok(Self { root, cwd, git_outside, is_scratch: false })
    }

    /// Returns the root, if the settings give the sandbox a copy-on-write view of it.
    pub fn under_view(&self, settings: &Settings) -> Option<&HostPath> {
        (settings.scalars.workspace_mode.value == WorkspaceMode::Overlay).then_some(&self.root)
    }

    /// Returns where git keeps the repository's configuration, if this is one.
    pub fn git_directory(&self) -> PathBuf {
        match &self.git_outside {
            Some(outside) => outside.as_path().to_owned(),
            None => self.root.as_path().join(".git"),
        }
    }
}

/// Returns the working trees that a directory lies in, the innermost first, or the directory itself outside of any. Of a
/// linked worktree it is also the main one, whose environment may be the activated one. What is wider than a workspace may
/// be is left out: a home, which has the user's own programs, and what is above it.
///
/// What is in these directories is not believed. A `.git` file that leads nowhere, or a directory that is gone, widens
/// nothing.
#[must_use]
pub fn trees_around(directory: &Path, home: &Path) -> Vec<PathBuf> {
    let home = fs::canonicalize(home).unwrap_or_else(|_| home.to_owned());
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let is_narrow = |path: &Path| !home.starts_with(path) && path.parent().is_some();
    let narrow = directory.ancestors().take_while(|path| is_narrow(path));
    let mut trees: Vec<PathBuf> = narrow.filter(|path| is_worktree(path)).map(Into::into).collect();
    let git = trees.iter().filter_map(|root| git_outside(root).ok().flatten());
    let of_main =
        git.filter(|git| git.ends_with(".git")).filter_map(|git| Some(git.parent()?.into()));
    let main: Vec<PathBuf> = of_main.filter(|main: &PathBuf| is_narrow(main)).collect();
    trees.extend(main);
    if trees.is_empty() && is_narrow(&directory) {
        trees.push(directory);
    }
    trees
}

fn is_worktree(path: &Path) -> bool {
    fs::symlink_metadata(path.join(".git")).is_ok_and(|entry| entry.is_dir() || entry.is_file())
}

/// Returns the common git directory of a linked worktree, or a submodule's git directory, if it lies
/// outside the root. A `.git` file is content of the repository, so the directory it names has to name
/// the worktree in return (gitrepository-layout(5)).
pub fn git_outside(root: &Path) -> Result<Option<PathBuf>, WorkspaceError> {
    let file = root.join(".git");
    let Some(named) = line(&file, b"gitdir: ") else { return Ok(None) };
    let doubt = || WorkspaceError::NotMutual {
        file: file.display().to_string(),
        directory: named.display().to_string(),
    };
    let git = fs::canonicalize(root.join(&named)).map_err(|_| doubt())?;
    let common = match line(&git.join("commondir"), b"") {
        Some(common) => {
            let back = line(&git.join("gitdir"), b"").ok_or_else(doubt)?;
            let back = fs::canonicalize(git.join(back)).map_err(|_| doubt())?;
            let common = fs::canonicalize(git.join(common)).map_err(|_| doubt())?;
            let in_common = git.parent() == Some(common.join("worktrees").as_path());
            if back != file || !in_common {
                return Err(doubt());
            }
            common
        }
        None => {
            let directory = open_directory(&git).map_err(|_| doubt())?;
            let config = read_beneath(directory, Path::new("config")).ok().flatten();
            let worktree = Config::parse_last(config.ok_or_else(doubt)?.bytes)
                .last("core.worktree")
                .map(|value| git.join(value));
            let back = worktree.and_then(|path| fs::canonicalize(path).ok());
            if back.as_deref() != Some(root) {
                return Err(doubt());
            }
            git
        }
    };
    Ok(Some(common).filter(|common| !common.starts_with(root)))
}

#[cfg(test)]
mod tests;
