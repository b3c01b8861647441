//! The command line.

mod choice;
mod deferred;
mod options;
mod output;
mod suggest;

use clap::{Parser, Subcommand};

use crate::accept::AcceptArgs;
use crate::adopt::AdoptArgs;
use crate::approvals::ApprovalsArgs;
use crate::attach::AttachArgs;
use crate::audit::AuditArgs;
use crate::check::CheckArgs;
use crate::clean::CleanArgs;
use crate::cluster::ClusterCommand;
use crate::completions::CompletionsArgs;
use crate::config::ConfigArgs;
use crate::exec::{ExecArgs, ShellArgs, StopArgs};
use crate::group::ImportGroupArgs;
use crate::guard::{GuardArgs, ReadArgs};
use crate::hide::HideArgs;
use crate::hindsight::ReviewArgs;
use crate::host::{HostGitArgs, HostRunArgs};
use crate::image::ImageCommand;
use crate::import::{ImportArgs, RepositoryArgs};
use crate::log::LogsArgs;
use crate::memory::MemoryCommand;
use crate::network::ChangeArgs;
use crate::review::{ApplyArgs, DiffArgs, DiscardArgs, PsArgs};
use crate::secret::SecretCommand;
use crate::serve::{McpArgs, ServeArgs};
use crate::setup::SetupCommand;
use crate::snapshot::{SnapshotCommand, StepArgs};
use crate::spec_loop::LoopArgs;
use crate::ssh::{SshConfigArgs, SshProxyArgs};
use crate::task::TaskCommand;
use crate::trust::TrustArgs;
use crate::unpack::{UnpackArgs, UnpackSystemArgs};
use crate::vm::VmCommand;
use crate::wait::WaitArgs;
use crate::work::WorkArgs;
use crate::worktree::LookArgs;

pub(crate) use choice::choice;
use deferred::{Deferred, DeferredCommands};
pub(crate) use options::{LearnArgs, PolicyArgs, RunArgs, cpus};
pub(crate) use output::Output;
pub(crate) use suggest::suggest;

/// Run coding agents unattended and safely on your own repository.
#[derive(Debug, Parser)]
#[command(
    name = "pinfold",
    version,
    max_term_width = 100,
    help_template = include_str!("../data/help.txt")
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent or a command in a sandbox around the current directory
    Run(Deferred<RunArgs>),
    /// Run with every public host allowed, then propose rules for what was reached
    Learn(Deferred<LearnArgs>),
    /// Run a command in a live session
    Exec(Deferred<ExecArgs>),
    /// Open a shell in a live session
    Shell(Deferred<ShellArgs>),
    /// Print configuration with which ssh, scp and sftp reach sessions as NAME.pinfold
    SshConfig(Deferred<SshConfigArgs>),
    /// Attach this terminal to a detached session
    Attach(Deferred<AttachArgs>),
    /// Stop a live session
    Stop(Deferred<StopArgs>),
    /// Wait for the end of a session, and exit with its command's status
    Wait(Deferred<WaitArgs>),
    /// Show the output of a detached session
    Logs(Deferred<LogsArgs>),
    /// Allow a live session to reach a host
    Allow(Deferred<ChangeArgs>),
    /// Remove a rule from a live session, and cut the connections that only it allowed
    Forbid(Deferred<ChangeArgs>),
    /// List live sessions, and with --all ended ones
    Ps(Deferred<PsArgs>),
    /// Show a session's changes in a view of its workspace
    Diff(Deferred<DiffArgs>),
    /// Apply a session's changes to the workspace
    Apply(Deferred<ApplyArgs>),
    /// Discard a session's changes
    Discard(Deferred<DiscardArgs>),
    /// Check what a sandbox may access, reach or use, and explain why
    Check(Deferred<CheckArgs>),
    /// Show the settings of a run in this directory
    Config(Deferred<ConfigArgs>),
    /// Show what the repository's settings ask for, and trust them
    Trust(Deferred<TrustArgs>),
    /// Convert groups of Pynchy to settings
    ImportGroup(Deferred<ImportGroupArgs>),
    /// Print shell completions
    Completions(Deferred<CompletionsArgs>),
    /// Set up this machine for sessions that run as a user of their own
    Setup(DeferredCommands<SetupCommand>),
    /// Check whether pinfold works on this machine, and explain what to do if not
    Doctor(Deferred<Output>),
    /// Show what pinfold keeps on disk, and remove what is not needed
    Clean(Deferred<CleanArgs>),
    /// Accept a session's branches that change what tools run by themselves
    Accept(Deferred<AcceptArgs>),
    /// Put back files and repositories that were set aside at the end of a session
    Adopt(Deferred<AdoptArgs>),
    /// Move a secret out of the workspace and leave a link
    Hide(Deferred<HideArgs>),
    /// Show and answer what sandboxes ask for: commands on this machine, and hosts
    Approvals(Deferred<ApprovalsArgs>),
    /// Show the audit log
    Audit(Deferred<AuditArgs>),
    /// Show what a session did, next to earlier ones
    Review(Deferred<ReviewArgs>),
    /// Serve the local API to other programs
    Serve(Deferred<ServeArgs>),
    /// Serve tools in a sandbox to an agent (Model Context Protocol)
    Mcp(Deferred<McpArgs>),
    /// Reject a bundle of extensions whose code can start processes
    Guard(Deferred<GuardArgs>),
    /// Manage credentials for the gateway and for other services
    Secret(DeferredCommands<SecretCommand>),
    /// Build, list and remove the systems that sessions run on
    Snapshot(DeferredCommands<SnapshotCommand>),
    /// Build and list agents' container images
    Image(DeferredCommands<ImageCommand>),
    /// Show what machines are made of, and fetch a kernel for them
    Vm(DeferredCommands<VmCommand>),
    /// Manage the queue of tasks, and their results
    #[command(alias = "tasks")]
    Task(DeferredCommands<TaskCommand>),
    /// Work on the tasks of the queue
    Work(Deferred<WorkArgs>),
    /// Have the nodes of a cluster work on the tasks of a team's queue
    Cluster(DeferredCommands<ClusterCommand>),
    /// Have agents work on a specification until it is done
    Loop(Deferred<LoopArgs>),
    /// Manage what agents remember: entries of a diary, and packs of them
    Memory(DeferredCommands<MemoryCommand>),
    /// Carry out one attempt at a task
    #[command(hide = true)]
    Attempt,
    /// Run one of a snapshot's set-up commands
    #[command(hide = true)]
    SnapshotStep(Deferred<StepArgs>),
    /// Read the files of a bundle of extensions
    #[command(hide = true)]
    ReadBundle(Deferred<ReadArgs>),
    /// Unpack an agent's packages, in a boundary
    #[command(hide = true)]
    Unpack(Deferred<UnpackArgs>),
    /// Unpack a system's archives, in a boundary
    #[command(hide = true)]
    UnpackSystem(Deferred<UnpackSystemArgs>),
    /// Import a session's commits into the host's repository, in a boundary
    #[command(hide = true)]
    ImportObjects(Deferred<ImportArgs>),
    /// Read a repository that a session made, in a scratch sandbox
    #[command(hide = true)]
    ReadRepository(Deferred<RepositoryArgs>),
    /// Run a program for a sandbox, and end all that it leaves
    #[command(hide = true)]
    HostRun(Deferred<HostRunArgs>),
    /// Serve a client of SSH on standard streams
    #[command(hide = true)]
    SshProxy(Deferred<SshProxyArgs>),
    /// Run git for a sandbox, in a boundary
    #[command(hide = true)]
    HostGit(Deferred<HostGitArgs>),
    /// Compare a worktree with its commit, in a boundary
    #[command(hide = true)]
    LookAtWorktree(Deferred<LookArgs>),
}

#[cfg(test)]
mod tests;
