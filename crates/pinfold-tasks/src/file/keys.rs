//! The keys of a task's front matter.

use pinfold_policy::document::{Key, Shape};
use pinfold_policy::settings::{Narrowing, WorkspaceMode};

use crate::spec_status::SpecStatus;

/// `limits`.
pub(super) const LIMITS: &[Key] = &[
    Key::new("cpus", Shape::Cpus, "CPUs, such as 1.5."),
    Key::new("memory", Shape::Text, "Memory of all processes together, such as \"4G\"."),
    Key::new("pids", Shape::Count, "Processes and threads."),
    Key::new("disk", Shape::Text, "Space in the private directories, such as \"2G\"."),
    Key::new("time", Shape::Text, "Time of one run of the agent, such as \"30m\"."),
];

/// `budget`.
pub(super) const BUDGET: &[Key] = &[
    Key::new("usd", Shape::Amount, "Money for models, such as 2.50."),
    Key::new("tokens", Shape::Count, "Model tokens, sent and received."),
    Key::new("requests", Shape::Count, "Requests to models."),
];

/// `timeouts`.
pub(super) const TIMEOUTS: &[Key] = &[
    Key::new("dispatch", Shape::Text, "From the claim to the first heartbeat; \"5m\" by default."),
    Key::new("running", Shape::Text, "From the first heartbeat to the end; \"2h\" by default."),
];

/// The keys of tasks and specifications, and further ones.
macro_rules! front_matter {
    ($($own:expr),+ $(,)?) => {
        &[
            Key::new("title", Shape::Text, "A line for lists; the first line of the brief by default."),
            Key::new("repository", Shape::Text, "The repository; the one that it is added in by default."),
            Key::new("base", Shape::Text, "The branch that the work begins at."),
            Key::new("branch", Shape::Text, "The branch that the work is put on."),
            Key::new("agent", Shape::Text, "The agent, such as \"claude\"."),
            Key::new("provider", Shape::Text, "The model's provider."),
            Key::new("model", Shape::Text, "The model, as the agent names it."),
            Key::new("identity", Shape::Text, "The identity that the agent works as."),
            Key::new(
                "group",
                Shape::Text,
                "The group that the agent works for; of a group one task is worked on at a time.",
            ),
            Key::new(
                "workspace",
                Shape::Choice(WorkspaceMode::WORDS),
                "How the sandbox sees the repository.",
            ),
            Key::new(
                "policy",
                Shape::Table(Narrowing::KEYS),
                "What is taken from the policy of its sandboxes; it only narrows.",
            ),
            Key::new("limits", Shape::Table(LIMITS), "What an attempt may use of the machine."),
            Key::new("budget", Shape::Table(BUDGET), "What an attempt may use of models."),
            Key::new(
                "verify",
                Shape::List(&Shape::Text),
                "Lines for sh that decide in a sandbox of their own whether the result is accepted.",
            ),
            Key::new(
                "restore",
                Shape::List(&Shape::Text),
                "Paths whose files are as in the base while the result is verified, such as \"tests\".",
            ),
            Key::new(
                "sealed",
                Shape::Text,
                "A directory whose files are put over the result while it is verified; the agent never sees it.",
            ),
            Key::new("iterations", Shape::Count, "How often the agent may work on it; 3 by default."),
            Key::new(
                "touches",
                Shape::List(&Shape::Text),
                "Globs of the files that it changes; two tasks that may change the same file do not run at once.",
            ),
            Key::new("priority", Shape::Whole, "Tasks with a higher number are claimed first."),
            Key::new("attempts", Shape::Count, "How many attempts there may be; 3 by default."),
            Key::new("timeouts", Shape::Table(TIMEOUTS), "How long an attempt may take."),
            $($own,)+
        ]
    };
}

/// The front matter of a task.
pub(super) const TASK: &[Key] = front_matter![Key::new(
    "depends",
    Shape::List(&Shape::Text),
    "Tasks that have to be completed before."
)];

/// The front matter of a specification.
pub(super) const SPEC: &[Key] = front_matter![
    Key::new(
        "depends",
        Shape::Either(&Shape::Text, &Shape::List(&Shape::Text)),
        "Specifications that have to be done before: files, or numbers of issues.",
    ),
    Key::new("status", Shape::Choice(SpecStatus::WORDS), "How far it is; pinfold keeps it."),
];

/// A task as stores keep it.
pub(super) const STORED: &[Key] = &[
    Key::new("task", Shape::Table(TASK), "The front matter."),
    Key::new("brief", Shape::Text, "The brief."),
];
