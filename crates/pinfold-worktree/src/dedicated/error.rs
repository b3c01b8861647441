//! Why there is no worktree to work in.

use std::io;
use std::path::PathBuf;

use pinfold_git::host_git::GitError;
use pinfold_git::refs::shell_word;
use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::BranchName;
use thiserror::Error;

/// Why there is no dedicated worktree.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DedicatedError {
    /// Nobody says for which branch.
    #[error("workspace mode dedicated_worktree (by {0}) needs the name of a branch")]
    NoBranch(String),
    /// A branch is named, and another mode chosen.
    #[error("--worktree-branch is for a worktree of its own, and workspace mode {0} makes none")]
    OtherMode(String),
    /// There is nothing to make a worktree of.
    #[error("{} is in no git repository: there is nothing to make a worktree of", Escaped(.0))]
    NoRepository(PathBuf),
    /// There is no git, or only one that lies in the repository.
    #[error("no git can be used: {0}")]
    NoGit(io::Error),
    /// An empty repository.
    #[error("the repository has no commit yet: there is nothing to check out")]
    NoCommit,
    /// The directory's name would be longer than a file's may be.
    #[error("{} would be a name of more than 255 bytes", Escaped(.0))]
    TooLong(PathBuf),
    /// The worktree would hold the caller's home.
    #[error("{} holds your home directory", Escaped(.0))]
    TooWide(PathBuf),
    /// Somebody else works on the branch.
    #[error("branch {branch} is checked out in {}", Escaped(.top))]
    CheckedOut {
        branch: BranchName,
        /// The top of the working tree.
        top: PathBuf,
    },
    /// The same, in a directory that is gone.
    #[error("branch {branch} is checked out in {}, which is gone", Escaped(.top))]
    CheckedOutNowhere {
        branch: BranchName,
        /// Where it was.
        top: PathBuf,
    },
    /// The directory is a worktree of another branch: `a/b` and `a-b` have the same.
    #[error("{} is a worktree of {other}, not of {branch}", Escaped(.top))]
    OtherBranch {
        top: PathBuf,
        /// What is checked out there.
        other: String,
        /// What was asked for.
        branch: BranchName,
    },
    /// The directory is something else.
    #[error("{} exists and is not a worktree of this repository", Escaped(.0))]
    Taken(PathBuf),
    /// It was not made yet.
    #[error("{} does not exist yet: `pinfold run` makes it", Escaped(.0))]
    NotMade(PathBuf),
    /// Git does not list what is checked out.
    #[error("cannot list the worktrees of {}: {source}", Escaped(.root))]
    Unlisted {
        root: PathBuf,
        /// What git says.
        source: GitError,
    },
    /// Git does not make it.
    #[error("cannot make the worktree {}: {source}", Escaped(.top))]
    Make {
        top: PathBuf,
        /// What git says.
        source: Refusal,
    },
    /// Git does not remove it.
    #[error("cannot remove the worktree {}: {source}", Escaped(.top))]
    Remove {
        top: PathBuf,
        /// What git says.
        source: Refusal,
    },
    /// The files cannot be written.
    #[error("cannot check out {branch} in {}: {source}", Escaped(.top))]
    Files {
        branch: BranchName,
        top: PathBuf,
        /// What git says.
        source: Refusal,
    },
    /// The same, where the repository has left objects at a remote.
    #[error(
        "cannot check out {branch} in {}: the repository is a partial clone, and for a worktree \
         nothing is fetched: {source}",
        Escaped(.top)
    )]
    Partial {
        branch: BranchName,
        top: PathBuf,
        root: PathBuf,
        /// What git says.
        source: Refusal,
    },
    /// Pinfold's own record of it.
    #[error(transparent)]
    Record(#[from] io::Error),
}

impl DedicatedError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let start = |top: &PathBuf| shell_word(&top.to_string_lossy());
        match self {
            Self::NoBranch(_) => Some("say --worktree-branch NAME".to_owned()),
            Self::OtherMode(_) => {
                Some("leave --workspace out, or say --workspace dedicated_worktree".to_owned())
            }
            Self::NoRepository(_) => {
                Some("change into a repository, or say --workspace scratch_mount".to_owned())
            }
            Self::NoGit(_) => Some("install git".to_owned()),
            Self::NoCommit => Some("make a first commit".to_owned()),
            Self::TooLong(_) | Self::TooWide(_) => Some("choose another name".to_owned()),
            Self::CheckedOut { top, .. } => {
                Some(format!("start there: cd {}; or choose another branch", start(top)))
            }
            Self::CheckedOutNowhere { .. } => {
                Some("run `git worktree prune` if it is gone for good".to_owned())
            }
            Self::OtherBranch { .. } => Some(
                "choose another name; a worktree's directory has the name of its branch with - \
                 for /"
                    .to_owned(),
            ),
            Self::Taken(_) => Some("move it away, or choose another branch".to_owned()),
            Self::Unlisted { root, .. } => Some(format!(
                "`git -C {} worktree list` has to succeed; `git worktree prune` removes what is gone",
                start(root)
            )),
            Self::Make { top, .. } => {
                let above = top.parent().unwrap_or(top);
                Some(format!(
                    "it lies next to the repository, so the repository's owner must be able to \
                     write in {}; or make one elsewhere with `git worktree add` and start there",
                    Escaped(above)
                ))
            }
            Self::Remove { top, .. } => {
                Some(format!("`git worktree remove --force {}` removes it", start(top)))
            }
            Self::Files { .. } => Some(
                "nothing of it is left; make it with `git worktree add` and start there".to_owned(),
            ),
            Self::Partial { branch, top, root, .. } => Some(format!(
                "let your own git fetch what is missing: `git -C {} worktree add {} {branch}` (-b {branch} for a \
                 new one); the run then works in it",
                start(root),
                start(top)
            )),
            Self::NotMade(_) | Self::Record(_) => None,
        }
    }
}
