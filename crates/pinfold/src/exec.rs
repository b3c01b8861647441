//! `pinfold exec`, `pinfold shell` and `pinfold stop`.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_policy::limits::{ByteSize, MilliCpus, WallTime};
use pinfold_session::control::{self, Exec, Limits, Tty};
use pinfold_session::prepare::describing;
use pinfold_terminal::notify;

use crate::cli::cpus;
use crate::completions;
use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::live())]
    session: String,
    /// The command and its arguments; options of exec come before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    surroundings: Surroundings,
}

#[derive(Debug, Args)]
pub(crate) struct ShellArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::live())]
    session: String,
    #[command(flatten)]
    surroundings: Surroundings,
}

#[derive(Debug, Args)]
struct Surroundings {
    /// Set a variable; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    env: Vec<String>,
    /// The working directory in the sandbox; by default that of the session's command
    #[arg(long, value_name = "DIRECTORY")]
    cwd: Option<PathBuf>,
    /// End it and everything that it started after this time, such as 90s or 2h
    #[arg(long, value_name = "TIME")]
    timeout: Option<WallTime>,
    /// Memory of all its processes together, such as 2G, within the session's limit
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Processes and threads, within the session's limit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    pids: Option<u64>,
    /// CPUs, such as 1.5, within the session's limit
    #[arg(long, value_name = "CPUS", value_parser = cpus)]
    cpus: Option<MilliCpus>,
    /// Open files of each of its processes, within the session's limit
    #[arg(long, value_name = "COUNT")]
    files: Option<u64>,
    /// Lower its priority by 0 to 19, as nice(1)
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=19))]
    nice: u8,
    /// The user; a session has one, agent
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Use a terminal, even if this is not one
    #[arg(long, short)]
    tty: bool,
    /// Use no terminal, even if there is one here
    #[arg(long, short = 'T', conflicts_with = "tty")]
    no_tty: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::live())]
    session: String,
    /// Kill what is left after this time
    #[arg(long, value_name = "TIME", default_value = "10s")]
    grace: WallTime,
}

pub(crate) fn exec(args: ExecArgs) -> Result<ExitCode, Failure> {
    run(&args.session, args.command, args.surroundings)
}

pub(crate) fn shell(args: ShellArgs) -> Result<ExitCode, Failure> {
    run(&args.session, Vec::new(), args.surroundings)
}

fn run(session: &str, argv: Vec<OsString>, around: Surroundings) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(Failure::places)?;
    let mut env = describing();
    for text in &around.env {
        env.push(variable(text)?);
    }
    let timeout = around.timeout.map(WallTime::duration);
    let tty = match (around.tty, around.no_tty) {
        (true, _) => Tty::Always,
        (false, true) => Tty::Never,
        (false, false) => Tty::AsHere,
    };
    let Surroundings { cwd, user, files, nice, memory, pids, cpus, .. } = around;
    let limits = Limits {
        memory: memory.map(ByteSize::bytes),
        pids,
        cpus: cpus.map(MilliCpus::thousandths),
    };
    let exec = Exec { argv, env, cwd, timeout, user, files, nice, limits, tty };
    let end = control::exec(&places, session, exec)?;
    if let Some(limit) = end.limit {
        let what = if limit.ended_the_run() { "ended the run" } else { "was reached" };
        notify!("pinfold: the {} limit {what}", limit.name());
    }
    if end.interrupted && std::io::stdin().is_terminal() {
        // The shell treats a job that an interrupt ended differently from one that returns.
        pinfold_host::sys::die_of_interrupt();
    }
    Ok(ExitCode::from(end.status))
}

fn variable(text: &str) -> Result<(OsString, OsString), Failure> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| Failure::own(format!("--env {text}: expected NAME=VALUE")))?;
    control::variable(name, value)
        .map_err(|error| Failure::own(format!("--env {error}")).hint(error.hint()))
}

pub(crate) fn stop(args: &StopArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    control::stop(&places, &args.session, args.grace.duration()).map_err(Failure::of_session)?;
    Ok(ExitCode::SUCCESS)
}
