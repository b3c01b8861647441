//! `pinfold accept`: takes branches that waited for a look.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_session::prepare;
use pinfold_terminal::notify;
use pinfold_workspace::accept::{Repository, Waiting, exclude_others};

use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// The session whose branches to accept; without it, list what waits in this repository
    #[arg(value_name = "SESSION")]
    session: Option<String>,
    /// Branches to accept; without it, all of the session
    #[arg(value_name = "BRANCH")]
    branches: Vec<String>,
}

/// Takes branches, or lists those that wait.
///
/// # Errors
/// Returns an error if there is no such session or branch, or the first branch that cannot be moved,
/// with the reason.
pub(crate) fn accept(args: &AcceptArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let workspace = prepare::workspace(&places)?;
    let repository = Repository::at(&workspace.root, launcher).map_err(Failure::new)?;
    let is_asked = args.session.is_some();
    let _others = is_asked.then(|| exclude_others(&places)).transpose().map_err(Failure::new)?;
    let waiting = repository.waiting().map_err(Failure::new)?;
    let Some(session) = &args.session else { return list(&waiting) };
    let is_named = |it: &&Waiting| {
        it.session.starts_with(session.as_str())
            && (args.branches.is_empty() || args.branches.contains(&it.branch))
    };
    let chosen: Vec<&Waiting> = waiting.iter().filter(is_named).collect();
    if chosen.is_empty() {
        return Err(Failure::new(format!("no branch of {} waits here", session.escape_debug()))
            .hint(Some("`pinfold accept` lists what waits".to_owned())));
    }
    for waiting in chosen {
        repository.accept(waiting).map_err(Failure::new)?;
        notify!("pinfold: {} is where session {} left it", waiting.branch, waiting.session);
    }
    Ok(ExitCode::SUCCESS)
}

fn list(waiting: &[Waiting]) -> Result<ExitCode, Failure> {
    if waiting.is_empty() {
        notify!("pinfold: no branch waits");
    }
    let mut out = std::io::stdout().lock();
    for Waiting { session, branch, .. } in waiting {
        writeln!(out, "{session}  {branch}").map_err(Failure::new)?;
    }
    Ok(ExitCode::SUCCESS)
}
