//! `pinfold hide`: moves secrets out of the workspace.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_hide::{self as moved, Condition, HideError, Tracking};
use pinfold_host::directories::Places;
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;

use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct HideArgs {
    /// A file to move; without it, list hidden files
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Put it back
    #[arg(long, requires = "paths")]
    undo: bool,
    /// Move a file even if git tracks it
    #[arg(long, requires = "paths", conflicts_with = "undo")]
    force: bool,
}

/// Moves each file out of its workspace, or back, or lists what is hidden.
///
/// # Errors
/// Returns an error for the first file that stays where it is, with the reason.
pub(crate) fn hide(args: &HideArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    if args.paths.is_empty() {
        return list(&places);
    }
    let failed = |error: HideError| Failure::new(&error).hint(error.hint());
    for path in &args.paths {
        if args.undo {
            let path = moved::undo(&places, path).map_err(failed)?;
            notify!("pinfold: {} is back", Escaped(&path));
            continue;
        }
        let tracking = if args.force { Tracking::Allow } else { Tracking::Refuse };
        let hidden = moved::hide(&places, path, tracking).map_err(failed)?;
        notify!(
            "pinfold: moved {} out of reach of sessions; a link leads to it",
            Escaped(&hidden.path)
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn list(places: &Places) -> Result<ExitCode, Failure> {
    let all = moved::list(places).map_err(Failure::new)?;
    if all.is_empty() {
        notify!("pinfold: nothing is hidden");
    }
    let mut out = std::io::stdout().lock();
    for hidden in &all {
        let when = humantime::format_rfc3339_seconds(hidden.when);
        let state = match hidden.condition {
            Condition::Hidden => "hidden".to_owned(),
            Condition::Older => format!("an older one is {}", Escaped(&hidden.content)),
            Condition::Replaced => {
                format!("another file is there; the hidden one is {}", Escaped(&hidden.content))
            }
            Condition::Gone => format!("its link is gone; it is {}", Escaped(&hidden.content)),
        };
        writeln!(out, "{when}  {}  {state}", Escaped(&hidden.path)).map_err(Failure::new)?;
    }
    Ok(ExitCode::SUCCESS)
}
