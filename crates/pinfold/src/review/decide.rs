//! `pinfold apply` and `pinfold discard`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_workspace::review::{Change, Left, Selection};

use super::{Chosen, choose};
use crate::exit::Failure;

/// More are not listed.
const MOST_LISTED: usize = 20;

#[derive(Debug, Default, Args)]
#[command(override_usage = "pinfold apply [OPTIONS] [SESSION] [PATH…]")]
pub(crate) struct ApplyArgs {
    /// The session, by the beginning of its id (by default the newest here), and the paths to apply
    /// (by default all)
    #[arg(value_name = "SESSION|PATH")]
    words: Vec<OsString>,
    /// Also apply over changes that others made since the session started
    #[arg(long)]
    overwrite: bool,
    /// Also apply what programs on the host would run; look at it first
    #[arg(long)]
    protected: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    /// The session, by the beginning of its id; by default the newest here
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,
}

pub(crate) fn apply(args: &ApplyArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let Chosen { places, review, paths } = choose(&args.words, launcher)?;
    let ApplyArgs { overwrite, protected, .. } = *args;
    let selection = Selection { paths, overwrite, protected, ..Selection::default() };
    let changes = review.changes()?;
    if let Some(path) =
        selection.paths.iter().find(|path| changes.of(std::slice::from_ref(*path)).next().is_none())
    {
        return Err(Failure::new(format!("the session changed nothing at {}", Escaped(path))));
    }
    let conflicts = review.conflicts(&changes, &selection);
    if !conflicts.is_empty() && !overwrite {
        return Err(refuse(&conflicts, review.session()));
    }
    let session = review.session().to_owned();
    let workspace = Escaped(review.workspace()).to_string();
    let left: Vec<&Change> =
        changes.left(&selection.paths).into_iter().filter(|it| is_left(it, protected)).collect();
    review.record(&places, "apply", &changes, &selection).map_err(Failure::new)?;
    let applied = review.apply(&changes, &selection)?;
    let paths =
        if applied.done == 1 { "1 path".to_owned() } else { format!("{} paths", applied.done) };
    notify!("pinfold: took {paths} over into {workspace}");
    applied.report();
    for change in left.iter().take(MOST_LISTED) {
        let path = Escaped(&change.path);
        match &change.left {
            Some(Left::Protected(protected)) => notify!(
                "pinfold: left: {path}: {} (`pinfold apply {session} --protected PATH` takes it)",
                protected.reason
            ),
            Some(Left::Never(why)) => notify!("pinfold: left: {path}: {why}"),
            None => {}
        }
    }
    if left.len() > MOST_LISTED {
        notify!("pinfold: left: {} more", left.len() - MOST_LISTED);
    }
    if !applied.complete {
        notify!(
            "pinfold: the rest waits: `pinfold diff {session}` shows it, `pinfold discard \
             {session}` drops it"
        );
    }
    Ok(ExitCode::from(u8::from(!applied.skipped.is_empty())))
}

/// Returns whether a change is passed by although it was asked for.
fn is_left(change: &Change, protected: bool) -> bool {
    match change.left {
        None => false,
        Some(Left::Protected(_)) => !protected,
        Some(Left::Never(_)) => true,
    }
}

fn refuse(conflicts: &[&Change], session: &str) -> Failure {
    let list: Vec<String> = conflicts
        .iter()
        .take(MOST_LISTED)
        .filter_map(|change| Some((change.conflict?.words(), Escaped(&change.path))))
        .map(|(how, path)| format!("\n  {how}: {path}"))
        .collect();
    let (count, more) = (conflicts.len(), conflicts.len().saturating_sub(MOST_LISTED));
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    Failure::new(format!(
        "{count} {} were changed both by the session and outside of it; nothing was applied{}{more}",
        if count == 1 { "path" } else { "paths" },
        list.concat()
    ))
    .hint(Some(format!(
        "`pinfold diff {session}` shows what would be; name other paths, or take the session's \
         side with --overwrite"
    )))
}

pub(crate) fn discard(args: &DiscardArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let words: Vec<OsString> = args.session.iter().cloned().collect();
    let Chosen { places, review, paths } = choose(&words, launcher)?;
    if let Some(path) = paths.first() {
        return Err(Failure::new(format!("no session is called {}", Escaped(path)))
            .hint(Some("`pinfold ps --all` lists them".to_owned())));
    }
    // A workspace that is gone keeps nobody from dropping what was changed in it.
    let changes = review.changes().unwrap_or_default();
    review.record(&places, "discard", &changes, &Selection::default()).map_err(Failure::new)?;
    let session = review.session().to_owned();
    review.discard()?;
    notify!("pinfold: dropped what session {session} changed");
    Ok(ExitCode::SUCCESS)
}
