//! `pinfold adopt`: puts back what the end of a session set aside, and takes what it can of a git directory that was kept.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::note::summary;
use pinfold_policy::path::Escaped;
use pinfold_protect::set_aside;
use pinfold_storage::Kind;
use pinfold_terminal::notify;
use pinfold_workspace::accept::exclude_others;
use pinfold_workspace::git::kept::KeptCopy;

use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct AdoptArgs {
    /// A path that was set aside, or a git directory that is kept of a session; without it, list all
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
}

/// Puts each path back, or lists what was set aside. Programs on this machine use it from then on.
///
/// # Errors
/// Returns an error for the first path that stays where it is, with the reason.
pub(crate) fn adopt(args: &AdoptArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    if args.paths.is_empty() {
        return list(&places);
    }
    // Another one may be adopting the same copy, and removes it.
    let _others = exclude_others(&places).map_err(Failure::new)?;
    for path in &args.paths {
        if let Some(copy) = KeptCopy::at(&places, path).map_err(Failure::new)? {
            adopt_copy(Host { places: &places, launcher }, &copy)?;
            continue;
        }
        let path = set_aside::adopt(&places, path)?;
        notify!("pinfold: {} is in use again", Escaped(&path));
    }
    Ok(ExitCode::SUCCESS)
}

fn adopt_copy(host: Host<'_>, copy: &KeptCopy) -> Result<(), Failure> {
    let adopted = copy.adopt(host)?;
    let (repository, session) = (Escaped(&adopted.repository), &copy.session);
    let first = match &adopted.executed {
        None => {
            ": look at them first, for the working trees that say what tools run by themselves are gone"
        }
        Some(executed) if executed.is_empty() => "",
        Some(_) => ": look first at what is named below",
    };
    let accepts = if adopted.has_branches {
        format!("; `pinfold accept {session}` in its working tree takes branches{first}")
    } else {
        String::new()
    };
    notify!(
        "pinfold: {repository} has {} references of session {session} now, below refs/pinfold/{session}{accepts}",
        adopted.references
    );
    for line in summary(&adopted.executed.unwrap_or_default(), &adopted.lists) {
        notify!("pinfold: {line}");
    }
    let Some(why) = adopted.left else { return Ok(()) };
    let what = format!("the rest stays in {}: {why}", Escaped(&copy.path));
    let hint = format!("`pinfold clean {}` removes it", Kind::KeptGit.name());
    Err(Failure::new(what).hint(Some(hint)).plain())
}

fn list(places: &Places) -> Result<ExitCode, Failure> {
    let all = set_aside::list(places);
    let copies = KeptCopy::all(places).map_err(Failure::new)?;
    if all.is_empty() && copies.is_empty() {
        notify!("pinfold: nothing is set aside");
    }
    let mut out = std::io::stdout().lock();
    for aside in &all {
        let when = humantime::format_rfc3339_seconds(aside.when);
        writeln!(out, "{when}  {}  {}", aside.session, Escaped(&aside.path))
            .map_err(Failure::new)?;
    }
    for copy in &copies {
        writeln!(out, "{}  {}", copy.session, Escaped(&copy.path)).map_err(Failure::new)?;
    }
    Ok(ExitCode::SUCCESS)
}
