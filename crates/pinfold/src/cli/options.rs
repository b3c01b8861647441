//! The options of `pinfold run`, and those that every command with a policy has.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use pinfold_host::digest::ContentHash;
use pinfold_host::session_id::SessionName;
use pinfold_memory::TaskDiary;
use pinfold_policy::env::EnvName;
use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_policy::network::{HostPattern, NetworkRule, Preset};
use pinfold_policy::project::Base;
use pinfold_policy::settings::{
    AgentState, ApplyMode, BoundaryName, BranchName, EngineName, IdentityMode, LandlockMode,
    MemoryGrant, Narrowing, PublishedPort, Usd, WorkspaceMode,
};

use super::choice;

const SESSION: &str = "Session";
const AGENT: &str = "Agent and model";
const WORKSPACE: &str = "Workspace";
const FILES: &str = "Files";
const NETWORK: &str = "Network";
const HOST: &str = "Identity and commands on this machine";
const ENVIRONMENT: &str = "Environment";
const LIMITS: &str = "Limits";
const BUDGET: &str = "Groups and budgets";
const BOUNDARY: &str = "Boundary and system";
const PROJECT: &str = "Repository settings";

const RUN_EXAMPLES: &str = "\
Examples:
  pinfold run claude                                    an agent in this checkout
  pinfold run -- make test                              a command
  pinfold run --unattended --detach --name night claude -- -p \"fix the failing tests\"
                                                        in the background, on a view of the checkout
  pinfold run --allow npm -- npm ci                     with npm's registry
  pinfold run --read ~/docs --write ~/out -- make       with more of your files";

const LEARN_EXAMPLES: &str = "\
Example:
  pinfold learn -- npm ci                               runs it, and prints the rules that it needs";

#[derive(Debug, Args)]
#[command(
    override_usage = "pinfold run [OPTIONS] AGENT [-- ARGUMENTS…]\n       pinfold run [OPTIONS] -- COMMAND…",
    after_help = RUN_EXAMPLES
)]
pub(crate) struct RunArgs {
    /// The agent: pi, claude, codex, gemini, opencode, or one of your own; without it, a command
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The agent's arguments, or the command and its arguments
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) rest: Vec<OsString>,
    /// Run in the background, without input; `pinfold logs` shows the output
    #[arg(long, short, help_heading = SESSION)]
    pub(crate) detach: bool,
    /// Run no command: wait for `pinfold exec`, until `pinfold stop` or the end of standard input
    #[arg(long, conflicts_with_all = ["agent", "rest"], help_heading = SESSION)]
    pub(crate) idle: bool,
    /// End with the process that started the session: no setting may detach it
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) held: bool,
    /// Take no commits, branches or tags out of the sandbox
    #[arg(long, hide = true)]
    pub(crate) discard_commits: bool,
    /// Give the command this file as /tmp/spec.md, and write what it made of it with the result
    #[arg(long, hide = true, value_name = "FILE", requires = "result")]
    pub(crate) spec: Option<PathBuf>,
    /// Put entries into the diary of a task, with its tags
    #[arg(long, hide = true, value_name = "JSON", value_parser = TaskDiary::from_json)]
    pub(crate) memory_task: Option<TaskDiary>,
    /// With --detach: use a terminal, which `pinfold attach` connects to
    #[arg(long, short, requires = "detach", conflicts_with = "idle", help_heading = SESSION)]
    pub(crate) tty: bool,
    /// Name the session
    #[arg(long, value_name = "NAME", help_heading = SESSION)]
    pub(crate) name: Option<SessionName>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Have the agent work on this prompt and end; any agent takes it this way
    #[arg(
        long,
        value_name = "TEXT",
        requires = "agent",
        allow_hyphen_values = true,
        help_heading = AGENT
    )]
    pub(crate) prompt: Option<String>,
    /// The same with the prompt from a file, or from standard input (-)
    #[arg(
        long,
        value_name = "FILE",
        requires = "agent",
        conflicts_with = "prompt",
        help_heading = AGENT
    )]
    pub(crate) prompt_file: Option<PathBuf>,
    /// Write how the run ended to this file, as JSON: status, limit, session, and use of models
    #[arg(long, value_name = "FILE", conflicts_with = "detach", help_heading = SESSION)]
    pub(crate) result: Option<PathBuf>,
    /// Give the sandbox notes about the last sessions in this workspace: /run/pinfold/earlier-sessions.md
    #[arg(long, help_heading = SESSION)]
    pub(crate) remember: bool,
    /// Run on the agent's own container image, with the agent in it (`pinfold image`)
    #[arg(long, conflicts_with_all = ["base", "idle"], help_heading = AGENT)]
    pub(crate) agent_image: bool,
    /// Print where the time of the start went to standard error
    #[arg(long, help_heading = SESSION)]
    pub(crate) timings: bool,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "pinfold learn [OPTIONS] AGENT [-- ARGUMENTS…]\n       pinfold learn [OPTIONS] -- COMMAND…",
    after_help = LEARN_EXAMPLES
)]
pub(crate) struct LearnArgs {
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// The model, as the agent names it
    #[arg(long, help_heading = AGENT)]
    pub(crate) model: Option<String>,
    /// The model's provider
    #[arg(long, help_heading = AGENT)]
    pub(crate) provider: Option<String>,
    /// Bring your own setup of the agent, read-only: instructions, skills, commands, subagents, MCP
    /// servers and themes; never logins
    #[arg(long, help_heading = AGENT)]
    pub(crate) my_config: bool,
    /// Keep the agent's own state (its conversations and settings) for this workspace, for all of
    /// them, or not; for this workspace by default, if you attend the run
    #[arg(
        long,
        value_name = "MODE",
        help_heading = AGENT,
        value_parser = choice::<AgentState>(AgentState::WORDS)
    )]
    pub(crate) state: Option<AgentState>,
    /// Run without a user who answers: without the agent's own permission prompts, in a view of the
    /// workspace; harmless changes are applied at the end if it succeeded
    #[arg(long, help_heading = AGENT)]
    pub(crate) unattended: bool,
    /// How the sandbox sees the workspace: itself, a new git worktree, an empty directory, or a view
    #[arg(
        long,
        value_name = "MODE",
        help_heading = WORKSPACE,
        value_parser = choice::<WorkspaceMode>(WorkspaceMode::WORDS)
    )]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Work in a git worktree for this branch next to the repository; both are created if needed
    #[arg(long, value_name = "BRANCH", help_heading = WORKSPACE)]
    pub(crate) worktree_branch: Option<BranchName>,
    /// What happens to a view's changes at the end
    #[arg(
        long,
        value_name = "MODE",
        help_heading = WORKSPACE,
        value_parser = choice::<ApplyMode>(ApplyMode::WORDS)
    )]
    pub(crate) apply: Option<ApplyMode>,
    /// Also apply files that git ignores, such as build output
    #[arg(long, help_heading = WORKSPACE)]
    pub(crate) apply_ignored: bool,
    /// Grant a path for reading and executing; may be repeated
    #[arg(long, value_name = "PATH", help_heading = FILES)]
    pub(crate) read: Vec<PathBuf>,
    /// Grant a path for reading and writing; may be repeated
    #[arg(long, value_name = "PATH", help_heading = FILES)]
    pub(crate) write: Vec<PathBuf>,
    /// Allow connections to a Unix socket in a granted directory; may be repeated
    #[arg(long, value_name = "PATH", help_heading = FILES)]
    pub(crate) socket: Vec<PathBuf>,
    /// Do without a protection, by its name; may be repeated
    #[arg(long, value_name = "NAME", help_heading = FILES)]
    pub(crate) opt_in: Vec<String>,
    /// Allow a host.
    #[arg(
        long,
        value_name = "RULE",
        help_heading = NETWORK,
        help = "Allow a host: NAME[:PORT][/PROTOCOL], or *.NAME for its subdomains; may be repeated"
    )]
    pub(crate) allow_host: Vec<NetworkRule>,
    /// Allow the hosts of a preset: npm, pypi, crates, go, debian or github; may be repeated
    #[arg(long, value_name = "PRESET", help_heading = NETWORK)]
    pub(crate) allow: Vec<Preset>,
    /// Allow a host with a private address, or a service of this machine (localhost:5432); may be
    /// repeated
    #[arg(long, value_name = "RULE", help_heading = NETWORK)]
    pub(crate) allow_internal_host: Vec<NetworkRule>,
    /// End TLS to a host here, so that each request is checked; may be repeated
    #[arg(long, value_name = "HOST", help_heading = NETWORK)]
    pub(crate) intercept: Vec<HostPattern>,
    /// Publish a port.
    #[arg(
        long,
        value_name = "PORT",
        help_heading = NETWORK,
        help = "Publish a port of the sandbox to the host and all its users: \
                [ADDRESS:][HOST_PORT:]PORT, such as 8080:3000; may be repeated"
    )]
    pub(crate) publish: Vec<PublishedPort>,
    /// Ask about each host that no rule names: here, by `pinfold approvals`, or as `[ask]` in config.toml
    /// says; without anybody to answer it is refused
    #[arg(long, help_heading = NETWORK)]
    pub(crate) ask: bool,
    /// Allow requests to run git, gh and moltnet on this machine; each one is approved
    #[arg(long, help_heading = HOST)]
    pub(crate) host_exec: bool,
    /// The same, and requests wait for `pinfold approvals` if nobody can answer here
    #[arg(long, help_heading = HOST)]
    pub(crate) wait_for_approvals: bool,
    /// Work as this identity: .moltnet/NAME or .pinfold/identities/NAME
    #[arg(long, value_name = "NAME", help_heading = HOST)]
    pub(crate) identity: Option<String>,
    /// Whether the identity's secrets stay outside or enter the sandbox
    #[arg(
        long,
        value_name = "MODE",
        help_heading = HOST,
        value_parser = choice::<IdentityMode>(IdentityMode::WORDS)
    )]
    pub(crate) identity_mode: Option<IdentityMode>,
    /// What tools may do with the identity's diary, or yours without one: `pinfold mcp` offers them
    #[arg(
        long,
        value_name = "MODE",
        help_heading = HOST,
        value_parser = choice::<MemoryGrant>(MemoryGrant::WORDS)
    )]
    pub(crate) memory_grant: Option<MemoryGrant>,
    /// Set a variable in the sandbox; may be repeated
    #[arg(long, value_name = "NAME=VALUE", help_heading = ENVIRONMENT)]
    pub(crate) env: Vec<String>,
    /// Pass a variable of yours; may be repeated
    #[arg(long, value_name = "NAME", help_heading = ENVIRONMENT)]
    pub(crate) forward_env: Vec<EnvName>,
    /// CPUs, such as 1.5
    #[arg(long, value_parser = cpus, help_heading = LIMITS)]
    pub(crate) cpus: Option<MilliCpus>,
    /// Memory of all processes together, such as 4G
    #[arg(long, value_name = "SIZE", help_heading = LIMITS)]
    pub(crate) memory: Option<ByteSize>,
    /// Processes and threads
    #[arg(long, value_name = "COUNT", help_heading = LIMITS)]
    pub(crate) pids: Option<u64>,
    /// Space in the private directories, such as 2G
    #[arg(long, value_name = "SIZE", help_heading = LIMITS)]
    pub(crate) disk: Option<ByteSize>,
    /// Open files of one process
    #[arg(long, value_name = "COUNT", help_heading = LIMITS)]
    pub(crate) files: Option<u64>,
    /// End the run after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME", help_heading = LIMITS)]
    pub(crate) timeout: Option<WallTime>,
    /// The session's group, which decides on budget and trust
    #[arg(long, value_name = "NAME", help_heading = BUDGET)]
    pub(crate) group: Option<String>,
    /// The most that this session may spend on models, such as 2.50
    #[arg(long, value_name = "USD", help_heading = BUDGET)]
    pub(crate) budget_usd: Option<Usd>,
    /// The most model tokens that this session may send and receive
    #[arg(long, value_name = "COUNT", help_heading = BUDGET)]
    pub(crate) budget_tokens: Option<u64>,
    /// The most model requests that this session may make
    #[arg(long, value_name = "COUNT", help_heading = BUDGET)]
    pub(crate) budget_requests: Option<u64>,
    /// Count this session against the budget of tasks, too
    #[arg(long, help_heading = BUDGET)]
    pub(crate) task_budget: bool,
    /// What encloses the sandbox
    #[arg(
        long,
        value_name = "NAME",
        help_heading = BOUNDARY,
        value_parser = choice::<BoundaryName>(BoundaryName::AVAILABLE)
    )]
    pub(crate) boundary: Option<BoundaryName>,
    /// The engine of a container; runsc is gVisor
    #[arg(
        long,
        value_name = "NAME",
        help_heading = BOUNDARY,
        value_parser =
            choice::<EngineName>(&["docker", "podman", "runc", "crun", "youki", "runsc"])
    )]
    pub(crate) engine: Option<EngineName>,
    /// The sandbox's system instead of the host's.
    #[arg(
        long,
        value_name = "BASE",
        help_heading = BOUNDARY,
        help = "The sandbox's system instead of the host's: alpine, debian, a registry's image, \
                docker-daemon:IMAGE, containers-storage:IMAGE, a directory or a tarball"
    )]
    pub(crate) base: Option<Base>,
    /// Whether to refuse to run without Landlock
    #[arg(
        long,
        value_name = "NEED",
        help_heading = BOUNDARY,
        value_parser = choice::<LandlockMode>(LandlockMode::WORDS)
    )]
    pub(crate) landlock: Option<LandlockMode>,
    /// Let programs make sandboxes of their own: bubblewrap, browsers, codex's, rootless podman.
    #[arg(
        long,
        help_heading = BOUNDARY,
        help = "Let programs make sandboxes of their own (bubblewrap, browsers, podman); less of the \
                kernel is out of their reach then"
    )]
    pub(crate) nested: bool,
    /// Run even if the boundary lacks a protection that the policy counts on
    #[arg(long, help_heading = BOUNDARY)]
    pub(crate) allow_weaker: bool,
    /// Read the repository's settings from this file instead
    #[arg(long, value_name = "FILE", help_heading = PROJECT)]
    pub(crate) sandbox_config: Option<PathBuf>,
    /// Trust the repository's settings if this is their hash (`pinfold trust --hash`)
    #[arg(long, value_name = "HASH", help_heading = PROJECT)]
    pub(crate) trust_config: Option<ContentHash>,
    /// Narrow the policy: the `policy` of a task, as JSON
    #[arg(long, value_name = "JSON", help_heading = PROJECT, value_parser = Narrowing::from_json)]
    pub(crate) narrow: Option<Narrowing>,
}

/// Parses a number of CPUs.
///
/// # Errors
/// Returns what is wrong with the number.
pub(crate) fn cpus(text: &str) -> Result<MilliCpus, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number, such as 1.5".to_owned())?;
    MilliCpus::from_cpus(number).map_err(|error| error.to_string())
}
