//! `pinfold adopt`: puts back what the end of a session set aside.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_policy::path::Escaped;
use pinfold_protect::set_aside;
use pinfold_terminal::notify;

use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// A path that was set aside; without it, list all
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Puts each path back, or lists what was set aside. Programs on this machine use it from then on.
///
/// # Errors
/// Returns an error for the first path that stays where it is, with the reason.
pub(crate) fn adopt(args: &AdoptArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    if args.paths.is_empty() {
        return list(&places);
    }
    for path in &args.paths {
        let path = set_aside::adopt(&places, path)?;
        notify!("pinfold: {} is in use again", Escaped(&path));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(places: &Places) -> Result<ExitCode, Failure> {
    let all = set_aside::list(places);
    if all.is_empty() {
        notify!("pinfold: nothing is set aside");
    }
    let mut out = std::io::stdout().lock();
    for aside in &all {
        let when = humantime::format_rfc3339_seconds(aside.when);
        writeln!(out, "{when}  {}  {}", aside.session, Escaped(&aside.path))
            .map_err(Failure::new)?;
    }
    Ok(ExitCode::SUCCESS)
}
