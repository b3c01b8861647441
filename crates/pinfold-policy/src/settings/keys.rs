//! The keys of the three settings files. Readers and published schemas share these tables.

use super::words::{
    AgentState, ApplyMode, BoundaryName, EngineName, GroupTrust, IdentityMode, LandlockMode,
    ShadowMode, Window, WorkspaceMode,
};
use crate::agents::Api;
use crate::document::{Key, Shape};
use crate::env::NAME_PATTERN;
use crate::network::Spots;
use crate::prices::PRICE;

const SIZE: Shape = Shape::Pattern("^[0-9]*[1-9][0-9]*(B|[KMGT](iB)?)?$");
const ENV: Shape = Shape::Map(NAME_PATTERN, &Shape::Text);
const TEXTS: Shape = Shape::List(&Shape::Text);
/// Names that appear in keys and messages: providers, secrets, agents.
pub(crate) const ID_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9._-]*$";
/// Regions and projects, which become parts of host names and paths.
pub(crate) const PLACE_PATTERN: &str = "^[a-z0-9][a-z0-9-]*$";

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
pub(crate) const PROJECT: &[Key] = &[
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

/// `network`, alike in the user's and the repository's file.
const NETWORK: &[Key] = &[
    Key::new(
        "allow",
        TEXTS,
        "Hosts that may be reached: NAME[:PORT][/PROTOCOL], *.NAME for those below.",
    ),
    Key::new("allowedInternalHosts", TEXTS, "Hosts that may lead to private addresses."),
    Key::new(
        "requests",
        Shape::List(&Shape::Table(REQUESTS)),
        "Hosts of which only some requests are allowed; their TLS is ended by pinfold.",
    ),
    Key::new("intercept", TEXTS, "Further hosts whose TLS is ended by pinfold."),
];

/// An entry of `network.requests`.
pub(super) const REQUESTS: &[Key] = &[
    Key::new("host", Shape::Text, "NAME[:PORT]."),
    Key::new("methods", TEXTS, "Methods, such as GET; all if absent."),
    Key::new("paths", TEXTS, "Paths, or all below one with /**; all if absent."),
];

/// An entry of `secrets`.
pub(super) const SECRET: &[Key] = &[
    Key::new("id", Shape::Pattern(ID_PATTERN), "Its name in `pinfold secret`."),
    Key::new("env", Shape::Pattern(NAME_PATTERN), "The variable that holds the placeholder."),
    Key::new("hosts", TEXTS, "The hosts it is sent to."),
    Key::new("ports", Shape::List(&Shape::Count), "Their ports; 443 if absent."),
    Key::new(
        "where",
        Shape::List(&Shape::Choice(Spots::WORDS)),
        "Where in a request; header and basic if absent.",
    ),
    Key::new("required", Shape::Flag, "Whether a run without the secret is refused."),
];

/// `[ssh]`.
pub(super) const SSH: &[Key] = &[
    Key::new("key", Shape::Text, "The key file; its public half has the same name with .pub."),
    Key::new("agent", Shape::Flag, "Whether the key is in your own ssh-agent."),
    Key::new("public_key", Shape::Text, "The public half of the key in your ssh-agent."),
    Key::new("hosts", Shape::List(&Shape::Table(SSH_HOST)), "Hosts that may be logged in to."),
];

/// An entry of `ssh.hosts`.
pub(super) const SSH_HOST: &[Key] = &[
    Key::new("host", Shape::Text, "The host's name, which may be reached on that port."),
    Key::new("port", Shape::Count, "Its port; 22 if absent."),
    Key::new("user", Shape::Text, "The user to log in as; git if absent."),
    Key::new("known", TEXTS, "Its keys; those that your own ssh knows if absent."),
    Key::new(
        "hostbound",
        Shape::Flag,
        "Whether only logins count whose signature names the host key; false for servers that \
         know no such logins.",
    ),
];

/// `[providers.NAME]`.
pub(crate) const PROVIDER: &[Key] = &[
    Key::new("base_url", Shape::Text, "https URL of the provider; http only for loopback."),
    Key::new(
        "plain_http",
        Shape::Flag,
        "Whether base_url may be http for a server of your own network.",
    ),
    Key::new(
        "api",
        Shape::Choice(Api::WORDS),
        "What a provider of your own speaks: openai or anthropic.",
    ),
    Key::new(
        "env_var_name",
        Shape::Pattern(NAME_PATTERN),
        "The variable with the key of a provider of your own; NAME_API_KEY if absent.",
    ),
    Key::new("keyless", Shape::Flag, "Whether the provider needs no key."),
    Key::new("region", Shape::Pattern(PLACE_PATTERN), "The region of Bedrock or Vertex."),
    Key::new("project", Shape::Pattern(PLACE_PATTERN), "The Google Cloud project of Vertex."),
    Key::new(
        "models",
        TEXTS,
        "The models that may be asked for, NAME or NAME* for all that begin so; all if absent.",
    ),
    Key::new(
        "account",
        Shape::Map(ID_PATTERN, &Shape::Text),
        "Headers that choose an account, such as OpenAI-Project; those of the sandbox do not pass.",
    ),
];

/// A budget.
pub(super) const BUDGET: &[Key] = &[
    Key::new("requests", Shape::Count, "Requests to models."),
    Key::new("tokens", Shape::Count, "Tokens, sent and received."),
    Key::new("usd", Shape::Amount, "Money, in USD, by the prices that pinfold knows."),
    Key::new("per", Shape::Choice(Window::WORDS), "How long it lasts; session by default."),
];

/// The user's `[budget]`.
pub(super) const GROUPED: &[Key] = &[
    Key::new("requests", Shape::Count, "Requests to models."),
    Key::new("tokens", Shape::Count, "Tokens, sent and received."),
    Key::new("usd", Shape::Amount, "Money, in USD, by the prices that pinfold knows."),
    Key::new("per", Shape::Choice(Window::WORDS), "How long it lasts; session by default."),
    Key::new("group", Shape::Map(ID_PATTERN, &Shape::Table(BUDGET)), "Budgets of groups."),
];

/// `[groups.NAME]`.
pub(super) const GROUP: &[Key] = &[
    Key::new(
        "trust",
        Shape::Choice(GroupTrust::WORDS),
        "Whether its sessions get tokens for GitHub (admin), or git alone has them (member, \
         default).",
    ),
    Key::new(
        "folder",
        Shape::Pattern(ID_PATTERN),
        "Its directories' name; the group's by default.",
    ),
    Key::new("repo_access", Shape::Text, "A worktree that its sessions work on."),
    Key::new("timeout", Shape::Text, "Wall-clock time of its sessions, such as \"10m\"."),
    Key::new(
        "mounts",
        Shape::List(&Shape::Table(GROUP_MOUNT)),
        "What else its sessions see, as far as mount-allowlist.toml lets them.",
    ),
];

/// An entry of a group's `mounts`.
pub(super) const GROUP_MOUNT: &[Key] = &[
    Key::new(
        "host_path",
        Shape::Text,
        "Where it is: an absolute path, or one that begins with ~/.",
    ),
    Key::new(
        "container_path",
        Shape::Text,
        "Where it appears below /workspace/extra; its own name by default.",
    ),
    Key::new("readonly", Shape::Flag, "Whether it is read-only, which it is by default."),
];

/// A `containerConfig` of Pynchy's.
pub(super) const CONTAINER_CONFIG: &[Key] = &[
    Key::new("additional_mounts", Shape::List(&Shape::Table(GROUP_MOUNT)), "Mounts."),
    Key::new("timeout", Shape::Count, "Milliseconds."),
];

/// `[group_home]`.
pub(super) const GROUP_HOME: &[Key] = &[
    Key::new("root", Shape::Text, "The directory with groups/, data/ and config.toml."),
    Key::new("scripts", Shape::Text, "What appears as /workspace/scripts, read-only."),
    Key::new("runner", Shape::Text, "What appears as /app/src, read-only."),
    Key::new("env", TEXTS, "The names of a group's env file that its sessions see."),
];

/// `mount-allowlist.toml`.
pub(crate) const ALLOWLIST: &[Key] = &[
    Key::new(
        "allowed_roots",
        Shape::List(&Shape::Table(ALLOWED_ROOT)),
        "Directories that groups' mounts may lie in.",
    ),
    Key::new("blocked_patterns", TEXTS, "Texts that no path of a mount may contain."),
    Key::new("non_admin_read_only", Shape::Flag, "Whether only groups of admins may write."),
];

/// An entry of `allowed_roots`.
pub(crate) const ALLOWED_ROOT: &[Key] = &[
    Key::new("path", Shape::Text, "The directory."),
    Key::new("allow_read_write", Shape::Flag, "Whether mounts may be written to; no by default."),
    Key::new("description", Shape::Text, "What it is, for people."),
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

/// The user's `config.toml`.
pub(crate) const USER: &[Key] = &[
    SCHEMA,
    Key::new("boundary", Shape::Choice(BoundaryName::WORDS), "Where sessions run."),
    Key::new("engine", Shape::Choice(EngineName::WORDS), "What runs the boundary `container`."),
    Key::new("plugin", Shape::Text, "The program that makes the boundary `external`."),
    Key::new("agent", Shape::Pattern(ID_PATTERN), "The agent when none is named."),
    Key::new("model", Shape::Text, "The model; --model wins."),
    Key::new("provider", Shape::Pattern(ID_PATTERN), "The provider; --provider wins."),
    Key::new("landlock", Shape::Choice(LandlockMode::WORDS), "When the kernel lacks Landlock."),
    Key::new("workspace_mode", Shape::Choice(WorkspaceMode::WORDS), "How the workspace enters."),
    Key::new(
        "apply",
        Shape::Choice(ApplyMode::WORDS),
        "What becomes of a view's changes when the session ends.",
    ),
    Key::new("apply_ignored", Shape::Flag, "Whether ignored files are applied, too."),
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
    Key::new(
        "secrets",
        Shape::List(&Shape::Table(SECRET)),
        "Secrets that the sandbox has placeholders for.",
    ),
    Key::new(
        "identity_mode",
        Shape::Choice(IdentityMode::WORDS),
        "Whether an identity's secrets stay outside (brokered) or enter (inject).",
    ),
    Key::new("ssh", Shape::Table(SSH), "The key that signs for the sandbox, which never has it."),
    Key::new(
        "providers",
        Shape::Map(ID_PATTERN, &Shape::Table(PROVIDER)),
        "What holds for providers.",
    ),
    Key::new("group", Shape::Pattern(ID_PATTERN), "The group of sessions; --group wins."),
    Key::new("groups", Shape::Map(ID_PATTERN, &Shape::Table(GROUP)), "What holds for groups."),
    Key::new("group_home", Shape::Table(GROUP_HOME), "Where groups keep their files."),
    Key::new("budget", Shape::Table(GROUPED), "What may be used of models."),
    Key::new("prices", Shape::Map(".", &Shape::Table(PRICE)), "Prices of models, in USD."),
    WRAPPERS,
];

const CEILING_FILES: &[Key] = &[
    Key::new("deny", TEXTS, "Globs of names that are hidden in every granted directory."),
    Key::new("roots", TEXTS, "Absolute paths that every workspace and grant must lie under."),
];

const CEILING_NETWORK: &[Key] =
    &[Key::new("hosts", TEXTS, "The rules that every rule for a host must lie under.")];

/// The administrator's `policy.toml`.
pub(crate) const CEILING: &[Key] = &[
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
    Key::new("nested", Shape::Flag, "Whether profiles may ask for nested user namespaces."),
    WRAPPERS,
];

/// The keys of a table within a table.
pub(crate) fn sub_keys(of: &'static [Key], name: &str) -> &'static [Key] {
    match of.iter().find(|key| key.name == name) {
        Some(Key { shape: Shape::Table(keys), .. }) => keys,
        _ => &[],
    }
}
