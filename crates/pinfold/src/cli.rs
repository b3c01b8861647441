//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use pinfold_policy::env::EnvName;
use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_policy::network::{HostPattern, NetworkRule, Preset};
use pinfold_policy::project::Base;
use pinfold_policy::settings::{
    AgentState, ApplyMode, BoundaryName, BranchName, EngineName, IdentityMode, LandlockMode,
    PublishedPort, Usd, WorkspaceMode,
};
use pinfold_session::SessionName;
use pinfold_session::repository::ContentHash;

use crate::accept::AcceptArgs;
use crate::adopt::AdoptArgs;
use crate::approvals::ApprovalsArgs;
use crate::attach::AttachArgs;
use crate::check::CheckArgs;
use crate::completions::{self, CompletionsArgs};
use crate::config::ConfigArgs;
use crate::exec::{ExecArgs, ShellArgs, StopArgs};
use crate::group::ImportGroupArgs;
use crate::guard::{GuardArgs, ReadArgs};
use crate::hide::HideArgs;
use crate::host::{HostGitArgs, HostRunArgs};
use crate::image::ImageCommand;
use crate::import::{ImportArgs, RepositoryArgs};
use crate::log::LogsArgs;
use crate::network::ChangeArgs;
use crate::review::{ApplyArgs, DiffArgs, DiscardArgs, PsArgs};
use crate::secret::SecretCommand;
use crate::serve::{McpArgs, ServeArgs};
use crate::snapshot::{SnapshotCommand, StepArgs};
use crate::trust::TrustArgs;
use crate::unpack::{UnpackArgs, UnpackSystemArgs};
use crate::worktree::LookArgs;

/// Run coding agents unattended and safely on your own repository.
#[derive(Debug, Parser)]
#[command(name = "pinfold", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent, or any command, inside a boundary in the current directory
    Run(Deferred<RunArgs>),
    /// Run with every public host allowed, then propose the smallest rules for what was reached
    Learn(Deferred<RunArgs>),
    /// Run a command in a live session, beside its own
    Exec(Deferred<ExecArgs>),
    /// Open a shell in a live session
    Shell(Deferred<ShellArgs>),
    /// Connect this terminal to that of a detached session
    Attach(Deferred<AttachArgs>),
    /// End a live session
    Stop(Deferred<StopArgs>),
    /// Show what a detached session has written
    Logs(Deferred<LogsArgs>),
    /// Let a live session reach a host
    Allow(Deferred<ChangeArgs>),
    /// Take a rule from a live session; connections that nothing else allows are cut
    Forbid(Deferred<ChangeArgs>),
    /// List sessions that run, or that changed a view of a workspace
    Ps(Deferred<PsArgs>),
    /// Show what a session changed in a view of its workspace
    Diff(Deferred<DiffArgs>),
    /// Take over what a session changed in a view of its workspace
    Apply(Deferred<ApplyArgs>),
    /// Drop what a session changed in a view of its workspace
    Discard(Deferred<DiscardArgs>),
    /// Check whether a sandbox may access a path, reach a host or use a secret, and explain why
    Check(Deferred<CheckArgs>),
    /// Show the settings that a run here would have
    Config(Deferred<ConfigArgs>),
    /// Show what the project's settings ask for beyond what you give, and trust them as they are
    Trust(Deferred<TrustArgs>),
    /// Print a group's settings from a containerConfig of Pynchy's
    ImportGroup(Deferred<ImportGroupArgs>),
    /// Print what makes a shell complete pinfold's words, and the names of sessions
    Completions(Deferred<CompletionsArgs>),
    /// Say whether pinfold works on this machine, and what to do if not
    Doctor(Deferred<Output>),
    /// Take branches of a session that change what tools run by themselves
    Accept(Deferred<AcceptArgs>),
    /// Put back files and repositories that the end of a session set aside
    Adopt(Deferred<AdoptArgs>),
    /// Move a secret out of the workspace and leave a link
    Hide(Deferred<HideArgs>),
    /// Show and answer what insides ask to run on this machine
    Approvals(Deferred<ApprovalsArgs>),
    /// Read the audit log
    Audit(Deferred<AuditArgs>),
    /// Serve the local API: sessions, programs, files and events for other programs of yours
    Serve(Deferred<ServeArgs>),
    /// Serve tools in a sandbox around this directory to an agent (Model Context Protocol)
    Mcp(Deferred<McpArgs>),
    /// Refuse a bundle of extensions whose code could start processes by itself
    Guard(Deferred<GuardArgs>),
    /// Keep the credentials that the gateway uses
    Secret(DeferredCommands<SecretCommand>),
    /// Make, list and remove the systems that sessions run on instead of this machine's own
    Snapshot(DeferredCommands<SnapshotCommand>),
    /// Build and list agents' container images
    Image(DeferredCommands<ImageCommand>),
    /// Run one of a snapshot's set-up commands
    #[command(hide = true)]
    SnapshotStep(Deferred<StepArgs>),
    /// Read the files of a bundle of extensions
    #[command(hide = true)]
    ReadBundle(Deferred<ReadArgs>),
    /// Unpack an agent's packages; runs inside a boundary
    #[command(hide = true)]
    Unpack(Deferred<UnpackArgs>),
    /// Unpack a system's archives; runs inside a boundary
    #[command(hide = true)]
    UnpackSystem(Deferred<UnpackSystemArgs>),
    /// Take what was committed inside into the host's repository, in a boundary
    #[command(hide = true)]
    ImportObjects(Deferred<ImportArgs>),
    /// Read a repository that a session made, in a scratch sandbox
    #[command(hide = true)]
    ReadRepository(Deferred<RepositoryArgs>),
    /// Run a program for an inside, and end all that it leaves
    #[command(hide = true)]
    HostRun(Deferred<HostRunArgs>),
    /// Run git for an inside, in a boundary
    #[command(hide = true)]
    HostGit(Deferred<HostGitArgs>),
    /// Say whether a worktree is as it was committed, in a boundary
    #[command(hide = true)]
    LookAtWorktree(Deferred<LookArgs>),
}

/// Arguments that are described to clap only once their subcommand was given: describing all of them
/// takes a fifth of a millisecond of every start.
#[derive(Debug)]
pub(crate) struct Deferred<T>(pub(crate) T);

impl<T: Args> Args for Deferred<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_args_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for Deferred<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// The same for subcommands of a subcommand.
#[derive(Debug)]
pub(crate) struct DeferredCommands<T>(pub(crate) T);

impl<T: Subcommand> Args for DeferredCommands<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let required = command.subcommand_required(true).arg_required_else_help(true);
        required.defer(T::augment_subcommands)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command.defer(T::augment_subcommands_for_update)
    }
}

impl<T: FromArgMatches> FromArgMatches for DeferredCommands<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        T::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

/// How results are shown.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Output {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// `pinfold audit`
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) output: Output,
    /// Only this session's records
    #[arg(long, value_name = "ID", add = completions::live())]
    pub(crate) session: Option<String>,
    /// Go on as records are written
    #[arg(long, short)]
    pub(crate) follow: bool,
}

/// `pinfold run`
#[derive(Debug, Args)]
#[command(
    override_usage = "pinfold run [OPTIONS] AGENT [-- ARGUMENTS…]\n       pinfold run [OPTIONS] -- COMMAND…"
)]
pub(crate) struct RunArgs {
    /// The agent (pi, claude, codex, opencode, or one of your own); without it, a command
    #[arg(value_name = "AGENT")]
    pub(crate) agent: Option<String>,
    /// The agent's arguments, or the command with its own
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) rest: Vec<OsString>,
    /// Go on in the background, without input; `pinfold logs` shows what it writes
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Run no command: wait for `pinfold exec`, until `pinfold stop` or the end of standard input
    #[arg(long, conflicts_with_all = ["agent", "rest"])]
    pub(crate) idle: bool,
    /// It ends with who started it: nothing may make it go on by itself
    #[arg(long, hide = true, conflicts_with = "detach")]
    pub(crate) held: bool,
    /// With --detach: give it a terminal, to which `pinfold attach` connects
    #[arg(long, short, requires = "detach", conflicts_with = "idle")]
    pub(crate) tty: bool,
    /// What to call the session
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<SessionName>,
    #[command(flatten)]
    pub(crate) policy: PolicyArgs,
    /// Run on the agent's own container image, and the agent that is in it (`pinfold image`)
    #[arg(long, conflicts_with_all = ["base", "idle"])]
    pub(crate) agent_image: bool,
    /// Print to standard error where the time of the start went
    #[arg(long)]
    pub(crate) timings: bool,
}

/// What every command that looks at a policy takes.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    /// Where to run: namespace, container or external
    #[arg(long, value_name = "NAME")]
    pub(crate) boundary: Option<BoundaryName>,
    /// What runs a container: docker, podman, runc, crun, youki or runsc (gVisor)
    #[arg(long, value_name = "NAME")]
    pub(crate) engine: Option<EngineName>,
    /// The system inside instead of this machine's.
    #[arg(
        long,
        value_name = "BASE",
        help = "The system inside instead of this machine's: alpine, debian, a registry's image, \
                docker-daemon:IMAGE, containers-storage:IMAGE, a directory or a tarball"
    )]
    pub(crate) base: Option<Base>,
    /// The model, as the agent names it
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The model's provider
    #[arg(long)]
    pub(crate) provider: Option<String>,
    /// How the workspace enters: shared_mount, dedicated_worktree, scratch_mount or overlay
    #[arg(long, value_name = "MODE")]
    pub(crate) workspace: Option<WorkspaceMode>,
    /// Work in a worktree for this branch beside the repository; both are made if they are not there
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree_branch: Option<BranchName>,
    /// Whether to refuse without Landlock: required or best-effort
    #[arg(long, value_name = "NEED")]
    pub(crate) landlock: Option<LandlockMode>,
    /// Keep the agent's own state between runs: persistent or ephemeral
    #[arg(long, value_name = "MODE")]
    pub(crate) state: Option<AgentState>,
    /// Run although a wall that the policy counts on is missing
    #[arg(long)]
    pub(crate) allow_weaker: bool,
    /// Run without anyone watching: the agent's own permission prompts are off, it works in a view, and
    /// harmless changes are applied at the end if it succeeded
    #[arg(long)]
    pub(crate) unattended: bool,
    /// What becomes of a view's changes at the end: auto, ask or never
    #[arg(long, value_name = "MODE")]
    pub(crate) apply: Option<ApplyMode>,
    /// Apply ignored files, too, such as build output
    #[arg(long)]
    pub(crate) apply_ignored: bool,
    /// Whether an agent goes on in the background.
    #[arg(skip)]
    pub(crate) is_alone: bool,
    /// Grant a path for reading and running; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<PathBuf>,
    /// Grant a path in full; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) write: Vec<PathBuf>,
    /// Keep a Unix socket in a granted directory reachable; may be repeated
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Vec<PathBuf>,
    /// Lift a protection by its name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) opt_in: Vec<String>,
    /// Let a host be reached.
    #[arg(
        long,
        value_name = "RULE",
        help = "Let a host be reached: NAME[:PORT][/PROTOCOL], *.NAME for those below; may be \
                repeated"
    )]
    pub(crate) allow_host: Vec<NetworkRule>,
    /// Let the hosts of a preset be reached: npm, pypi, crates, go, debian or github; may be repeated
    #[arg(long, value_name = "PRESET")]
    pub(crate) allow: Vec<Preset>,
    /// The same as --allow-host for a host that may lead to private addresses, or for a service of this
    /// machine (localhost:5432); may be repeated
    #[arg(long, value_name = "RULE")]
    pub(crate) allow_internal_host: Vec<NetworkRule>,
    /// End the TLS of a host here, so that each request is held against its name; may be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) intercept: Vec<HostPattern>,
    /// Let the host reach a port inside.
    #[arg(
        long,
        value_name = "PORT",
        help = "Let the host, and every user of it, reach a port of the sandbox: \
                [ADDRESS:][HOST_PORT:]PORT, such as 8080:3000; may be repeated"
    )]
    pub(crate) publish: Vec<PublishedPort>,
    /// Let the inside ask for git, gh and moltnet to be run on this machine; each call is approved
    #[arg(long)]
    pub(crate) host_exec: bool,
    /// The same, and requests wait for `pinfold approvals` where nobody else can answer
    #[arg(long)]
    pub(crate) wait_for_approvals: bool,
    /// Work in the name of this identity: .moltnet/NAME or .pinfold/identities/NAME
    #[arg(long, value_name = "NAME")]
    pub(crate) identity: Option<String>,
    /// Whether its secrets stay outside or enter: brokered or inject
    #[arg(long, value_name = "MODE")]
    pub(crate) identity_mode: Option<IdentityMode>,
    /// Set a variable inside; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// Let a variable of yours in; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) forward_env: Vec<EnvName>,
    /// CPUs, such as 1.5
    #[arg(long, value_parser = cpus)]
    pub(crate) cpus: Option<MilliCpus>,
    /// Memory of everything inside together, such as 4G
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
    /// Processes and threads
    #[arg(long, value_name = "COUNT")]
    pub(crate) pids: Option<u64>,
    /// Space in the private directories, such as 2G
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<ByteSize>,
    /// Open files of one process
    #[arg(long, value_name = "COUNT")]
    pub(crate) files: Option<u64>,
    /// End the run after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<WallTime>,
    /// The group of this session: whose budget counts, how far it is trusted
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// The most that this session may cost at its model's provider, such as 2.50
    #[arg(long, value_name = "USD")]
    pub(crate) budget_usd: Option<Usd>,
    /// The most tokens of a model that this session may send and receive
    #[arg(long, value_name = "COUNT")]
    pub(crate) budget_tokens: Option<u64>,
    /// The most requests to a model that this session may make
    #[arg(long, value_name = "COUNT")]
    pub(crate) budget_requests: Option<u64>,
    /// Take the project's settings from this file instead
    #[arg(long, value_name = "FILE")]
    pub(crate) sandbox_config: Option<PathBuf>,
    /// Trust the project's settings if this is their hash, which `pinfold trust --hash` prints
    #[arg(long, value_name = "HASH")]
    pub(crate) trust_config: Option<ContentHash>,
}

pub(crate) fn cpus(text: &str) -> Result<MilliCpus, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number, such as 1.5".to_owned())?;
    MilliCpus::from_cpus(number).map_err(|error| error.to_string())
}
