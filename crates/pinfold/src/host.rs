//! `pinfold host-run` and `pinfold host-git`: helper processes of the host-exec broker.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_session::host_git::Stage;
use pinfold_terminal::notify;

use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct HostRunArgs {
    /// The supervisor, with which it ends.
    parent: u32,
    program: OsString,
    name: OsString,
    #[arg(last = true)]
    args: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    Look,
    Run,
    Pack,
}

#[derive(Debug, Args)]
pub(crate) struct HostGitArgs {
    /// The supervisor, with which it ends.
    parent: u32,
    part: Part,
    place: PathBuf,
}

pub(crate) fn run(args: &HostRunArgs) -> Result<ExitCode, Failure> {
    let ended = pinfold_hostexec::mind(&args.program, &args.name, &args.args, args.parent);
    Ok(pinfold_hostexec::end_as(ended.map_err(Failure::own)?))
}

pub(crate) fn git(args: &HostGitArgs, launcher: Launcher) -> Result<ExitCode, Failure> {
    pinfold_hostexec::end_with(args.parent).map_err(Failure::own)?;
    let places = Places::find().map_err(Failure::places)?;
    let stage = match args.part {
        Part::Look => Stage::Look,
        Part::Run => Stage::Run,
        Part::Pack => Stage::Pack,
    };
    match stage.run(&args.place, places, launcher) {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(outcome)) => {
            notify::notes(&outcome.notes, outcome.session.as_ref());
            Ok(ExitCode::from(outcome.status))
        }
        Err(error) => {
            // What reads this shows it by itself.
            notify::lines(&error.to_string());
            Ok(ExitCode::from(125))
        }
    }
}
