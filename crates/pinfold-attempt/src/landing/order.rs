//! What is to land, and what became of it.

use std::path::Path;

use pinfold_policy::settings::BranchName;
use pinfold_tasks::TaskSpec;

use crate::failed::Failed;
use crate::job::Output;

/// Whether a landing moves its branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// The branch moves.
    Branch,
    /// It only merges, verifies and looks whether the branch could move.
    Nothing,
}

/// A result that is to land.
#[derive(Debug)]
pub struct LandOrder<'a> {
    /// The task's id.
    pub task: String,
    /// What the task asks for.
    pub spec: TaskSpec,
    /// The result that the queue accepted.
    pub output: Output,
    /// The branch to land on.
    pub onto: BranchName,
    /// The commit to land on in place of that branch's, for landings that move nothing and build on each other.
    pub tip: Option<String>,
    /// Whether the branch moves.
    pub moves: Moves,
    /// Other results that wait for the same branch.
    pub others: Vec<String>,
    /// The file that what runs is logged in.
    pub log: &'a Path,
    /// Variables that log in at the queue.
    pub hidden: &'static [&'static str],
}

/// A result that landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    /// The commit that the branch is at: the merge, or a commit that had the result already.
    pub commit: String,
    /// Whether the branch had the result already.
    pub is_old: bool,
    /// Those of the other results that conflict with it now.
    pub conflicting: Vec<String>,
    /// What a user should know.
    pub notes: Vec<String>,
}

/// Why a result did not land.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It conflicts with its base.
    Conflict,
    /// The merge does not pass the commands that verify it.
    Verification,
    /// The merge changes what tools run by themselves.
    Waits,
    /// The base moved, or the user's work in a checkout is in the way. It may land later.
    InTheWay,
    /// This process was asked to end.
    Stopped,
    /// Something is not as a landing needs it.
    Failed,
}

/// A result that did not land.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotLanded {
    /// The kind of reason.
    pub obstacle: Obstacle,
    /// The commit that it was merged into, if it came to that.
    pub tip: Option<String>,
    /// The reason, for people.
    pub why: String,
}

impl NotLanded {
    pub(super) fn new(obstacle: Obstacle, why: impl Into<String>) -> Self {
        Self { obstacle, tip: None, why: why.into() }
    }

    pub(super) fn setup(why: impl ToString) -> Self {
        Self::new(Obstacle::Failed, why.to_string())
    }
}

impl From<Failed> for NotLanded {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Stopped => Self::new(Obstacle::Stopped, "it was asked to end"),
            Failed::With(failure) => Self::setup(failure.message),
        }
    }
}
