//! The command line: parse, call, print.

mod approvals;
mod check;
mod cli;
mod config;
mod doctor;
mod environment;
mod exec;
mod exit;
mod guard;
mod host;
mod host_client;
mod import;
mod log;
mod network;
mod policy;
mod review;
mod run;
mod secret;
mod serve;
mod snapshot;
mod trust;
mod unpack;
mod warm;
mod worktree;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
use network::Way;
use pinfold_secrets::Store;
use pinfold_session::launcher::Launcher;
use pinfold_session::places::Places;
use pinfold_session::wrappers;

fn main() -> ExitCode {
    if let Some(name) = host_client::name() {
        return host_client::ask(&name);
    }
    wrappers::come_from(policy::wrappers);
    let outcome = match Cli::parse().command {
        Command::Run(args) => run::run(args.0, false),
        Command::Learn(args) => run::run(args.0, true),
        Command::Warm(args) => warm::warm(&args.0),
        Command::Exec(args) => exec::exec(args),
        Command::Shell(args) => exec::shell(args),
        Command::Stop(args) => exec::stop(&args),
        Command::Logs(args) => log::logs(&args),
        Command::Allow(args) => network::change_session(&Way::Allow, &args),
        Command::Forbid(args) => network::change_session(&Way::Forbid, &args),
        Command::Ps(args) => review::ps(&args),
        Command::Diff(args) => review::diff(&args),
        Command::Apply(args) => review::apply(&args),
        Command::Discard(args) => review::discard(&args),
        Command::Check(args) => check::check(&args.0),
        Command::Config(args) => config::config(&args.0),
        Command::Trust(args) => trust::trust(&args.0),
        Command::Doctor(output) => Ok(doctor::doctor(output)),
        Command::Guard(args) => guard::guard(&args),
        Command::ReadBundle(args) => guard::read(&args),
        Command::Approvals(args) => approvals::approvals(args),
        Command::Audit(args) => log::audit(&args),
        Command::HostRun(args) => host::run(&args),
        Command::HostGit(args) => host::git(&args),
        Command::ImportObjects(args) => import::import(args),
        Command::LookAtWorktree(args) => worktree::look(args),
        Command::Serve(args) => serve::serve(args),
        Command::Mcp(args) => serve::mcp(args),
        Command::Snapshot(command) => snapshot::snapshot(&command),
        Command::SnapshotStep(args) => snapshot::step(&args),
        Command::Unpack(args) => Ok(unpack::unpack(&args)),
        Command::UnpackSystem(args) => Ok(unpack::unpack_system(&args)),
        Command::Secret(command) => secret_command(command),
    };
    outcome.unwrap_or_else(exit::Failure::show)
}

fn secret_command(command: secret::SecretCommand) -> Result<ExitCode, exit::Failure> {
    let places = Places::find().map_err(exit::Failure::new)?;
    let store = Store::new(places.secrets());
    let mut out = std::io::stdout().lock();
    secret::run(command, &store, &Launcher, &mut out).map_err(exit::Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
