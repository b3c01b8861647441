//! What a task asks for.

use std::path::PathBuf;

use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_policy::settings::{BranchName, Narrowing, Usd, WorkspaceMode};
use serde::{Deserialize, Serialize};

use crate::id::TaskId;
use crate::task::Timeouts;

/// What a task asks for. It never changes after the task was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// A line for lists.
    pub title: String,
    /// What the agent is to do: Markdown.
    pub brief: String,
    /// The repository on this machine; where the task was added if none.
    pub repository: Option<PathBuf>,
    /// The branch that the work begins at; the current one if none.
    pub base: Option<BranchName>,
    /// The branch that the work is put on; one named after the task if none.
    pub branch: Option<BranchName>,
    /// The agent, such as `claude`.
    pub agent: Option<String>,
    /// The model's provider.
    pub provider: Option<String>,
    /// The model, as the agent names it.
    pub model: Option<String>,
    /// The identity that the agent works as.
    pub identity: Option<String>,
    /// The group that the agent works for. Of a group one task is worked on at a time.
    pub group: Option<String>,
    /// How the sandbox sees the repository.
    pub workspace: Option<WorkspaceMode>,
    /// What is taken from the policy of its sandboxes.
    pub policy: Option<Narrowing>,
    /// What an attempt may use of the machine.
    pub limits: Limits,
    /// What an attempt may use of models.
    pub budget: Budget,
    /// What decides whether the result is accepted.
    pub verify: Vec<VerifyStep>,
    /// Paths whose files are as in `base` while the result is verified, whatever the agent made of them: the tests.
    pub restore: Vec<String>,
    /// A directory on this machine whose files are put over the result while it is verified. The agent never sees it.
    pub sealed: Option<PathBuf>,
    /// How often the agent may work on it: again if the result is not accepted, with the reason.
    pub iterations: u32,
    /// Tasks that have to be completed before.
    pub depends: Vec<TaskId>,
    /// Globs of the files that it changes. Two tasks that may change the same file do not run at once.
    pub touches: Vec<String>,
    /// Tasks with a higher number are claimed first.
    pub priority: i32,
    /// How many attempts there may be.
    pub attempts: u32,
    /// How long they may take.
    pub timeouts: Timeouts,
}

/// What an attempt may use of the machine; what is not given is as in every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPUs.
    pub cpus: Option<MilliCpus>,
    /// Memory of all processes together.
    pub memory: Option<ByteSize>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Space in the private directories.
    pub disk: Option<ByteSize>,
    /// Time of one run of the agent.
    pub time: Option<WallTime>,
}

/// What an attempt may use of models; what is not given is as in every run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Money.
    pub usd: Option<Usd>,
    /// Tokens, sent and received.
    pub tokens: Option<u64>,
    /// Requests.
    pub requests: Option<u64>,
}

/// A command that a result has to pass: a line for `sh`, run in a sandbox of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyStep(pub String);

impl TaskSpec {
    /// The longest title, in bytes, as in MoltNet's API.
    pub const LONGEST_TITLE: usize = 255;
    /// The longest brief, in bytes.
    pub const LONGEST_BRIEF: usize = 1 << 20;
    /// The most commands that verify a result, tasks to wait for, and attempts.
    pub const MOST_STEPS: usize = 64;
    /// How many attempts there may be if the task does not say so. With one, the loss of a worker would be the end.
    pub const ATTEMPTS: u32 = 3;

    /// How often the agent may work on it if the task does not say so.
    pub const ITERATIONS: u32 = 3;

    /// Returns a task that asks for nothing but this.
    #[must_use]
    pub fn new(title: &str, brief: &str) -> Self {
        Self {
            title: title.to_owned(),
            brief: brief.to_owned(),
            repository: None,
            base: None,
            branch: None,
            agent: None,
            provider: None,
            model: None,
            identity: None,
            group: None,
            workspace: None,
            policy: None,
            limits: Limits::default(),
            budget: Budget::default(),
            verify: Vec::new(),
            restore: Vec::new(),
            sealed: None,
            iterations: Self::ITERATIONS,
            depends: Vec::new(),
            touches: Vec::new(),
            priority: 0,
            attempts: Self::ATTEMPTS,
            timeouts: Timeouts::default(),
        }
    }
}
