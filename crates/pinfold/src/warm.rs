//! `pinfold warm`.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use pinfold_policy::settings::WorkspaceMode;
use pinfold_session::places::Places;
use pinfold_session::warm::{Keeper, Kept};
use pinfold_session::{Request, RunError, Timeline};

use crate::cli::PolicyArgs;
use crate::exit::Failure;
use crate::policy;
use crate::run::{self, Wanted};

/// `pinfold warm`
#[derive(Debug, Args)]
pub(crate) struct WarmArgs {
    /// The agent that runs will name; without it, they run a command
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// How many to keep
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    count: u16,
    #[command(flatten)]
    policy: PolicyArgs,
}

/// Keeps sandboxes prepared for runs in the current directory with the same settings, until it is
/// interrupted.
///
/// # Errors
/// Whatever would keep such a run from starting.
pub(crate) fn warm(args: &WarmArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let first = request(args, &places)?;
    let root = first.workspace.root.clone();
    let mut first = Some(first);
    let make = || match first.take() {
        Some(first) => Ok(first),
        None => request(args, &places).map_err(RunError::from),
    };
    let keeper = Keeper::start(&places, &root, usize::from(args.count), make)?;
    let tell = |kept| {
        let words = match kept {
            Kept::Ready => format!("pinfold: prepared for runs in {root}: {}", args.count),
            Kept::Failed { what, hint: None } => format!("pinfold: cannot prepare: {what}"),
            Kept::Failed { what, hint: Some(hint) } => {
                format!("pinfold: cannot prepare: {what}\nhint: {hint}")
            }
        };
        // Whoever started it may have gone with the terminal.
        let _ = writeln!(std::io::stderr(), "{words}");
    };
    keeper.keep(tell)?;
    Ok(ExitCode::SUCCESS)
}

/// What a run would be here and now.
fn request(args: &WarmArgs, places: &Places) -> Result<Request, Failure> {
    let project = policy::workspace(places)?;
    let settings = policy::settings(&args.policy, args.agent.as_deref(), places, &project)?;
    if settings.workspace_mode.value == WorkspaceMode::DedicatedWorktree {
        return Err(Failure::own(
            "each run with a worktree of its own makes one: there is nothing to prepare",
        )
        .hint(Some("leave --worktree-branch out".to_owned())));
    }
    let wanted = Wanted {
        agent: args.agent.clone(),
        unattended: args.policy.unattended,
        ..Wanted::default()
    };
    run::request(wanted, settings, project, places.clone(), Timeline::default())
}
