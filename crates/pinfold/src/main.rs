//! The command line: parse, call, print.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod accept;
mod adopt;
mod approvals;
mod attach;
mod audit;
mod check;
mod clean;
mod cli;
mod cluster;
mod completions;
mod config;
mod doctor;
mod exec;
mod exit;
mod group;
mod guard;
mod hide;
mod hindsight;
mod host;
mod image;
mod import;
mod log;
mod memory;
mod memory_client;
mod network;
mod nss;
mod policy;
mod print;
mod review;
mod run;
mod secret;
mod serve;
mod setup;
mod snapshot;
mod spec_loop;
mod ssh;
mod task;
mod task_queue;
mod trust;
mod unpack;
mod vm;
mod wait;
mod work;
mod worktree;

use std::cell::LazyCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command, PolicyArgs};
use network::Way;
use pinfold_boundary::{container, managed, systemd};
use pinfold_host::directories::Places;
use pinfold_host::launcher::{Launcher, leave_out_in_children};
use pinfold_host::wrappers::Wrappers;
use pinfold_hostexec::program;
use pinfold_secrets::Store;
use pinfold_session::prepare;

fn main() -> ExitCode {
    pinfold_host::sys::remember_ignored_signals();
    pinfold_vm::guest::run_as_first();
    if container::run_as_init() || managed::run_as_init() || systemd::run_as_init() {
        return ExitCode::SUCCESS;
    }
    if let Some(name) = program::name() {
        return program::ask(&name);
    }
    if memory_client::is_called() {
        return memory_client::run();
    }
    completions::answer(Cli::command);
    leave_out_in_children(left_out);
    // What only talks to a live session needs none, and answers sooner.
    let launcher = LazyCell::new(|| {
        Launcher::new(Wrappers::of_settings(policy::wrappers)).leaving_out(&left_out())
    });
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        cli::suggest(error, Cli::command(), std::env::args_os().collect()).exit()
    });
    dispatch(cli.command, &launcher).unwrap_or_else(exit::Failure::show)
}

/// Runs what was asked for. Only what starts programs of the host needs a launcher.
fn dispatch(
    command: Command,
    launcher: &LazyCell<Launcher, impl FnOnce() -> Launcher>,
) -> Result<ExitCode, exit::Failure> {
    match command {
        Command::Run(args) => run::run(args.0, false, launcher),
        Command::Learn(args) => run::run(args.0.run, true, launcher),
        Command::Exec(args) => exec::exec(args.0),
        Command::Shell(args) => exec::shell(args.0),
        Command::SshConfig(args) => ssh::config(&args.0),
        Command::SshProxy(args) => ssh::proxy(&args.0),
        Command::Attach(args) => attach::attach(args.0),
        Command::Stop(args) => exec::stop(&args.0),
        Command::Wait(args) => wait::wait(&args.0),
        Command::Logs(args) => log::logs(&args.0),
        Command::Allow(args) => network::change_session(&Way::Allow, &args.0),
        Command::Forbid(args) => network::change_session(&Way::Forbid, &args.0),
        Command::Ps(args) => review::ps(&args.0, launcher),
        Command::Diff(args) => review::diff(&args.0, launcher),
        Command::Apply(args) => review::apply(&args.0, launcher),
        Command::Discard(args) => review::discard(&args.0, launcher),
        Command::Accept(args) => accept::accept(&args.0, launcher),
        Command::Adopt(args) => adopt::adopt(&args.0, launcher),
        Command::Hide(args) => hide::hide(&args.0),
        Command::Check(args) => check::check(&args.0, launcher),
        Command::Config(args) => config::config(&args.0, launcher),
        Command::Trust(args) => trust::trust(&args.0),
        Command::ImportGroup(args) => group::import(&args.0),
        Command::Completions(args) => completions::print(&args.0),
        Command::Clean(args) => clean::clean(&args.0, launcher),
        Command::Doctor(output) => doctor::doctor(output.0, launcher),
        Command::Guard(args) => guard::guard(&args.0),
        Command::ReadBundle(args) => guard::read(&args.0),
        Command::Review(args) => hindsight::review(&args.0, launcher),
        Command::Audit(args) => audit::run(&args.0),
        Command::ImportObjects(args) => import::import(args.0),
        Command::ReadRepository(args) => import::read(&args.0),
        Command::LookAtWorktree(args) => worktree::look(args.0),
        Command::Serve(args) => serve::serve(args.0),
        Command::Mcp(args) => serve::mcp(args.0, launcher, policy_of_run),
        Command::Snapshot(command) => snapshot::snapshot(&command.0, launcher),
        Command::Image(command) => image::image(&command.0, launcher),
        Command::Setup(command) => setup::setup(&command.0),
        Command::Task(command) => task::task(command.0, launcher),
        Command::Memory(command) => memory::memory(command.0, launcher),
        Command::Loop(args) => spec_loop::run(args.0, launcher),
        Command::Work(args) => work::work(&args.0, launcher),
        Command::Vm(command) => vm::vm(command.0, launcher),
        Command::Cluster(command) => cluster::cluster(command.0, launcher),
        Command::Attempt => work::attempt(launcher),
        Command::SnapshotStep(args) => snapshot::step(&args.0, Launcher::clone(launcher)),
        Command::Unpack(args) => Ok(unpack::unpack(&args.0)),
        Command::UnpackSystem(args) => Ok(unpack::unpack_system(&args.0)),
        Command::Secret(command) => secret_command(command.0, launcher),
        Command::Approvals(args) => approvals::approvals(args.0),
        Command::HostRun(args) => host::run(&args.0),
        Command::HostGit(args) => host::git(&args.0, Launcher::clone(launcher)),
    }
}

/// Returns the directories whose programs are not run by name. An activated environment puts a directory of a workspace first on
/// `PATH`.
fn left_out() -> Vec<PathBuf> {
    prepare::left_out(Places::find().ok().as_ref())
}

/// Returns what a command line of `pinfold run` says about the policy.
fn policy_of_run(words: Vec<OsString>) -> Result<PolicyArgs, clap::Error> {
    match Cli::try_parse_from(words)?.command {
        Command::Run(args) => Ok(args.0.policy),
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)),
    }
}

fn secret_command(
    command: secret::SecretCommand,
    launcher: &Launcher,
) -> Result<ExitCode, exit::Failure> {
    let places = Places::find().map_err(|error| exit::Failure::places(error).plain())?;
    let store = Store::new(places.secrets());
    let mut out = std::io::stdout().lock();
    secret::run(command, &store, launcher, &mut out).map_err(exit::Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
