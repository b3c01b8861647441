//! The keys of the three settings files. Readers and published schemas share these tables.

mod groups;
mod models;
mod network;
mod shapes;

pub(crate) use groups::{ALLOWED_ROOT, ALLOWLIST};
pub(super) use groups::{CONTAINER_CONFIG, GROUP, GROUP_HOME, GROUP_MOUNT};
pub(crate) use models::PROVIDER;
pub(super) use models::{BUDGET, GROUPED};
use network::{ASK, NETWORK};
pub(super) use network::{REQUESTS, SECRET, SSH, SSH_HOST};
use shapes::{ENV, SIZE, TEXTS};
pub use shapes::{ID_PATTERN, PLACE_PATTERN};

use super::scalars::KEYS as SCALARS;
use super::words::{
    AgentState, BoundaryName, GroupTrust, LandlockMode, MemoryGrant, ShadowMode, WorkspaceMode,
};
use crate::document::{Key, Shape};
use crate::prices::PRICE;
use crate::project::SystemUser;

/// What editors write for themselves; nothing follows from it.
const SCHEMA: Key = Key::new("$schema", Shape::Text, "Where the schema of this file is.");

/// `resources`, alike in all three files.
pub(crate) const RESOURCES: &[Key] = &[
    Key::new("cpus", Shape::Cpus, "CPU time per wall-clock time: 2 is two CPUs, 0.5 half of one."),
    Key::new("memory", SIZE, "Memory of all processes together, such as \"8G\"."),
    Key::new("pids", Shape::Count, "Processes and threads."),
    Key::new("disk", SIZE, "Bytes that private writable file systems may hold."),
    Key::new("files", Shape::Count, "Open files of each process."),
    Key::new("timeout", Shape::Text, "Wall-clock time from start to end, such as \"90s\"."),
    Key::new(
        "build",
        SIZE,
        "Bytes of the disk that a snapshot's base, and its set-up commands, may each fill.",
    ),
];

/// `sandbox.json` and `sandbox.toml`.
pub const PROJECT: &[Key] = &[
    SCHEMA,
    Key::new("env", ENV, "Environment variables inside. Reserved names are refused."),
    Key::new(
        "resources",
        Shape::Table(RESOURCES),
        "Limits; one that is above the user's waits until the user trusts the file.",
    ),
    Key::new(
        "hostExec",
        Shape::Table(HOST_EXEC),
        "Commands that the sandbox may ask the host to run.",
    ),
    Key::new("snapshot", Shape::Table(SNAPSHOT), "What the sandbox's system is built from."),
    Key::new("vfs", Shape::Table(VFS), "Paths of the workspace that are replaced inside."),
    Key::new(
        "resumeCommands",
        Shape::List(&Shape::Either(&Shape::Text, &Shape::Table(RESUME))),
        "Commands run inside at every start, before the agent.",
    ),
    Key::new(
        "boundary",
        Shape::Choice(BoundaryName::WORDS),
        "The weakest wall that is acceptable.",
    ),
    Key::new("network", Shape::Table(NETWORK), "Hosts that may be reached."),
    Key::new(
        "secrets",
        Shape::List(&Shape::Table(SECRET)),
        "Secrets that the sandbox has placeholders for.",
    ),
    Key::new(
        "publish",
        TEXTS,
        "Ports of the sandbox that the host can reach: [ADDRESS:][HOST_PORT:]PORT.",
    ),
    Key::new("workspaceMode", Shape::Choice(WorkspaceMode::WORDS), "How the workspace enters."),
];

/// The `policy` of a task.
pub(crate) const NARROWING: &[Key] = &[
    Key::new("resources", Shape::Table(RESOURCES), "The most of each; what is lower stays."),
    Key::new("network", Shape::Table(CEILING_NETWORK), "The only hosts that stay in reach."),
    Key::new("files", Shape::Table(NARROWING_FILES), "What is hidden in addition."),
    Key::new("boundary", Shape::Choice(BoundaryName::WORDS), "The weakest boundary to run in."),
    Key::new("landlock", Shape::Choice(LandlockMode::WORDS), "The weakest use of Landlock."),
    Key::new("hostExec", Shape::Table(NARROWING_HOST_EXEC), "Commands on the host."),
    Key::new(
        "memory",
        Shape::Choice(MemoryGrant::WORDS),
        "The most that tools may do with the diary.",
    ),
];

const NARROWING_FILES: &[Key] =
    &[Key::new("deny", TEXTS, "Globs of names that are hidden in every granted directory.")];

const NARROWING_HOST_EXEC: &[Key] =
    &[Key::new("allowed", Shape::Flag, "Whether the sandbox may ask the host at all.")];

/// `hostExec`.
pub(super) const HOST_EXEC: &[Key] = &[AUTO_APPROVE, EXECUTABLES, ON_PATH];

const AUTO_APPROVE: Key = Key::new(
    "autoApprove",
    Shape::Either(&Shape::Flag, &Shape::List(&Shape::Table(APPROVAL))),
    "What is run without asking: rules, or true for every executable of the user's list.",
);
const EXECUTABLES: Key = Key::new(
    "executables",
    Shape::List(&Shape::Pattern(ID_PATTERN)),
    "Executables that may be asked for, in addition to git, gh and moltnet.",
);
const ON_PATH: Key = Key::new(
    "onPath",
    Shape::List(&Shape::Pattern(ID_PATTERN)),
    "Names on PATH inside that ask the host; of git only what needs a login does.",
);

/// `hostExec` of the user's file.
const USER_HOST_EXEC: &[Key] = &[
    AUTO_APPROVE,
    EXECUTABLES,
    ON_PATH,
    Key::new(
        "enabled",
        Shape::Flag,
        "Whether the sandbox can ask; by default if this table exists.",
    ),
    Key::new("timeout", Shape::Text, "How long a command may run on the host; 60s by default."),
    Key::new("approvalTimeout", Shape::Text, "How long an answer may take; 5m by default."),
    Key::new(
        "waitForApprovals",
        Shape::Flag,
        "Whether a request waits if nobody can answer it now.",
    ),
];

/// `host_exec` of the administrator's file.
const CEILING_HOST_EXEC: &[Key] = &[
    Key::new("allowed", Shape::Flag, "Whether a sandbox may ask the host to run commands."),
    Key::new(
        "executables",
        Shape::List(&Shape::Pattern(ID_PATTERN)),
        "The only executables that may be asked for.",
    ),
];

/// An entry of `hostExec.autoApprove`.
pub(super) const APPROVAL: &[Key] = &[
    Key::new("executable", Shape::Pattern(ID_PATTERN), "The executable, by its exact name."),
    Key::new("args", TEXTS, "All of the arguments, where no others are allowed."),
    Key::new("argsPrefix", TEXTS, "The first arguments, in this order."),
    Key::new("argsContains", TEXTS, "Arguments that must be there, in any order."),
    Key::new("argsExcludes", TEXTS, "Arguments that must not be there; looked for first."),
];

/// `snapshot`.
pub(super) const SNAPSHOT: &[Key] = &[
    Key::new(
        "base",
        Shape::Text,
        "host, alpine, debian, an image of a registry or of an engine here (docker-daemon:, \
         containers-storage:), or a directory or tarball by a path with / or ./.",
    ),
    Key::new("setupCommands", TEXTS, "Commands that are run on the base, in order, once."),
    Key::new(
        "allowedHosts",
        TEXTS,
        "Hosts that they may reach, in addition to package registries.",
    ),
    Key::new("overlaySize", SIZE, "The space that a session may fill on top, 3G by default."),
    Key::new(
        "user",
        Shape::Choice(SystemUser::WORDS),
        "Who the session's user is in it: agent (the default), or root by name, for package managers.",
    ),
    Key::new(
        "directories",
        TEXTS,
        "Directories directly below / that are the session's own and empty at its start, such as /app.",
    ),
];

/// `vfs`.
pub(super) const VFS: &[Key] = &[
    Key::new("shadow", TEXTS, "Paths, relative to the workspace."),
    Key::new(
        "shadowMode",
        Shape::Choice(ShadowMode::WORDS),
        "What is there instead: private and writable (tmpfs, the default), or nothing (deny).",
    ),
];

/// An entry of `resumeCommands`.
pub(super) const RESUME: &[Key] = &[
    Key::new("run", Shape::Text, "What a shell runs."),
    Key::new("retries", Shape::Whole, "How often it is tried again; 0 by default."),
    Key::new(
        "retryBackoffMs",
        Shape::Whole,
        "Milliseconds before it is first tried again, 2000 by default; the wait grows linearly.",
    ),
    Key::new("when", Shape::Table(WHEN), "When it runs; always if absent."),
];

/// `when` of an entry of `resumeCommands`.
pub(super) const WHEN: &[Key] = &[Key::new(
    "workspaceMode",
    Shape::List(&Shape::Choice(WorkspaceMode::WORDS)),
    "The workspace modes in which it runs.",
)];

const USER_FILES: &[Key] = &[
    Key::new("read", TEXTS, "Paths granted for reading and running."),
    Key::new("write", TEXTS, "Paths granted in full."),
    Key::new("deny", TEXTS, "Globs of names that are hidden in every granted directory."),
    Key::new("sockets", TEXTS, "Unix sockets that stay reachable."),
    Key::new("opt_in", TEXTS, "Protections to lift, by the name the refusal gives."),
    Key::new("state", Shape::Choice(AgentState::WORDS), "What becomes of the agent's own state."),
    Key::new("my_config", Shape::Flag, "Whether your own setup of the agent enters, read-only."),
];

/// An entry of `wrappers`.
pub(super) const WRAPPER: &[Key] = &[
    Key::new("id", Shape::Pattern(ID_PATTERN), "Its name; the same again replaces it."),
    Key::new("command", TEXTS, "The program, by an absolute path, and its arguments."),
    Key::new("label", Shape::Text, "What is shown instead of its name."),
];

const WRAPPERS: Key = Key::new(
    "wrappers",
    Shape::List(&Shape::Table(WRAPPER)),
    "Programs that are asked about each launch, in this order, and may change it.",
);

/// `[tasks]`.
pub(super) const TASKS: &[Key] = &[
    Key::new("repositories", TEXTS, "Directories; tasks may work in them and below."),
    Key::new("branches", TEXTS, "Globs of branches that results may be put on, besides task/ID."),
    Key::new("identities", TEXTS, "Identities that tasks may work as."),
    Key::new("groups", TEXTS, "Groups that tasks may work for."),
    Key::new("sealed", Shape::Map(".", &Shape::Text), "Sealed directories, each with its hash."),
];

/// The user's `config.toml`.
pub const USER: &[Key] = &joined::<{ SCALARS.len() + USER_TABLES.len() }>(SCALARS, USER_TABLES);

/// Its keys apart from those of settings of one value.
const USER_TABLES: &[Key] = &[
    SCHEMA,
    Key::new("env", ENV, "Environment variables inside."),
    Key::new("forward_env", TEXTS, "Names of the caller's variables that enter."),
    Key::new("resources", Shape::Table(RESOURCES), "Limits."),
    Key::new("files", Shape::Table(USER_FILES), "Grants and denials beyond the workspace."),
    Key::new("network", Shape::Table(NETWORK), "What may be reached."),
    Key::new(
        "publish",
        TEXTS,
        "Ports of the sandbox that the host can reach: [ADDRESS:][HOST_PORT:]PORT.",
    ),
    Key::new(
        "hostExec",
        Shape::Table(USER_HOST_EXEC),
        "Commands that the sandbox may ask the host to run.",
    ),
    Key::new("ask", Shape::Table(ASK), "Questions to you while a session runs."),
    Key::new(
        "secrets",
        Shape::List(&Shape::Table(SECRET)),
        "Secrets that the sandbox has placeholders for.",
    ),
    Key::new("diary", Shape::Table(DIARY), "Where diaries are kept, and how much of them."),
    Key::new("ssh", Shape::Table(SSH), "The key that signs for the sandbox, which never has it."),
    Key::new(
        "providers",
        Shape::Map(ID_PATTERN, &Shape::Table(PROVIDER)),
        "What holds for providers.",
    ),
    Key::new("groups", Shape::Map(ID_PATTERN, &Shape::Table(GROUP)), "What holds for groups."),
    Key::new("group_home", Shape::Table(GROUP_HOME), "Where groups keep their files."),
    Key::new("budget", Shape::Table(GROUPED), "What may be used of models."),
    Key::new("prices", Shape::Map(".", &Shape::Table(PRICE)), "Prices of models, in USD."),
    Key::new("tasks", Shape::Table(TASKS), "What tasks of a shared queue may ask for."),
    Key::new("task_database", Shape::Text, "The queue's URL, or local; it wins over DATABASE_URL."),
    WRAPPERS,
];

/// `[diary]`.
const DIARY: &[Key] = &[
    Key::new("server", Shape::Text, "A server with MoltNet's API, in the place of a file."),
    Key::new("size", SIZE, "What a diary may fill of the disk, such as \"1G\", the default."),
    Key::new("keep", Shape::Text, "How old entries become, such as \"90days\"; always by default."),
];

const CEILING_FILES: &[Key] = &[
    Key::new("deny", TEXTS, "Globs of names that are hidden in every granted directory."),
    Key::new("roots", TEXTS, "Absolute paths that every workspace and grant must lie under."),
];

const CEILING_NETWORK: &[Key] =
    &[Key::new("hosts", TEXTS, "The rules that every rule for a host must lie under.")];

/// The administrator's `policy.toml`.
pub const CEILING: &[Key] = &[
    SCHEMA,
    Key::new("resources", Shape::Table(RESOURCES), "The most that may be used."),
    Key::new(
        "boundaries",
        Shape::List(&Shape::Choice(BoundaryName::WORDS)),
        "The boundaries that may be used.",
    ),
    Key::new("landlock", Shape::Choice(LandlockMode::WORDS), "The weakest use of Landlock."),
    Key::new("files", Shape::Table(CEILING_FILES), "Where grants may lie, and what they hide."),
    Key::new("network", Shape::Table(CEILING_NETWORK), "Which hosts may be allowed."),
    Key::new("agents", TEXTS, "The agents that may be run."),
    Key::new("env", ENV, "Environment variables that nothing overrides."),
    Key::new("budget", Shape::Table(BUDGET), "What a user may use of models at most."),
    Key::new(
        "group_trust",
        Shape::Choice(GroupTrust::WORDS),
        "The most that sessions are trusted with; member keeps tokens for GitHub from all.",
    ),
    Key::new("host_exec", Shape::Table(CEILING_HOST_EXEC), "Commands on the host."),
    Key::new("allow_weaker", Shape::Flag, "Whether --allow-weaker is permitted."),
    Key::new("nested", Shape::Flag, "Whether sandboxes may have sandboxes of their own."),
    WRAPPERS,
];

const fn joined<const COUNT: usize>(first: &[Key], rest: &[Key]) -> [Key; COUNT] {
    let mut all = [SCHEMA; COUNT];
    let mut index = 0;
    while index < COUNT {
        all[index] = if index < first.len() { first[index] } else { rest[index - first.len()] };
        index += 1;
    }
    all
}

/// Returns the keys of a table within a table.
pub(crate) fn sub_keys(of: &'static [Key], name: &str) -> &'static [Key] {
    match of.iter().find(|key| key.name == name) {
        Some(Key { shape: Shape::Table(keys), .. }) => keys,
        _ => &[],
    }
}
