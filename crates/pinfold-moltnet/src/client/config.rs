//! What a worker takes from a server, and what it says of results.

use pinfold_egress::WayOut;
use pinfold_host::Refusal;
use pinfold_tasks::{Completion, TaskSpec};

use super::credentials::Credentials;
use pinfold_content::Uuid;

/// The types of tasks that are worked on. Others are left to others.
pub(super) const TYPES: [&str; 2] = ["freeform", "fulfill_brief"];

/// What a worker takes from a server, and how.
pub struct RemoteConfig<'a> {
    /// The address of the server.
    pub address: String,
    /// How it is reached.
    pub way: WayOut,
    /// Who the worker is.
    pub credentials: Credentials,
    /// The team, if the key does not say so.
    pub team: Option<Uuid>,
    /// Tasks of this correlation alone.
    pub correlation: Option<Uuid>,
    /// What every task has: repository, agent, limits and verification. Title and brief come from the server.
    pub template: TaskSpec,
    /// Decides whether a task can be worked on here.
    pub check: &'a (dyn Fn(&TaskSpec) -> Result<(), Refusal> + Sync),
    /// Describes the result of an attempt.
    pub describe: &'a (dyn Fn(&Completion) -> Result<Work, Refusal> + Sync),
    /// Says whether the worker is to end. A claim looks at many tasks of a server that may be slow.
    pub is_ending: &'a (dyn Fn() -> bool + Sync),
    /// Takes lines for people.
    pub notify: &'a (dyn Fn(&str) + Sync),
}

/// What came of an attempt on this machine.
#[derive(Clone, Debug)]
pub struct Work {
    pub branch: String,
    /// What was done, for people.
    pub summary: String,
    /// The commits with their messages, the first one first.
    pub commits: Vec<(String, String)>,
}
