//! `pinfold task diff` and `pinfold task apply`: the result of a task.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_attempt::{Admission, Output as Outcome, Repository};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::{Launcher, run_own};
use pinfold_session::prepare;
use pinfold_tasks::TaskSpec;
use pinfold_terminal::colours::Colours;
use std::io::{IsTerminal as _, Write as _};

use super::find::{IdArgs, find};
use super::show::outcome;
use crate::exit::Failure;
use crate::task_queue::{self, TaskQueue};

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    task: IdArgs,
    /// Show only how much changed in which files
    #[arg(long)]
    stat: bool,
}

/// Returns the result of a task, and what the task asked for.
fn result(queue: &TaskQueue, id: &str) -> Result<(Outcome, TaskSpec), Failure> {
    let task = find(queue, id)?;
    let outcome = outcome(&queue.attempts(task.id)?, &task)?.ok_or_else(|| {
        let id = super::find::short(task.id);
        Failure::new(format!("task {id} has no result: it is {}", task.status))
            .hint(Some(format!("`pinfold task show {id}` says more")))
    })?;
    if !outcome.is_changed() {
        return Err(Failure::new("the result changes nothing"));
    }
    Ok((outcome, queue.spec(task.id)?))
}

/// Returns what tasks of this queue may use here, if others may have written them.
pub(super) fn admission(queue: &TaskQueue, places: &Places) -> Result<Option<Admission>, Failure> {
    let here = prepare::workspace(places).ok().map(|workspace| workspace.root);
    task_queue::admission(queue, places, here.as_ref().map(|root| root.as_path()))
}

fn repository_of(spec: TaskSpec) -> Result<PathBuf, Failure> {
    spec.repository.ok_or_else(|| Failure::new("the task has no repository"))
}

pub(super) fn diff(
    args: &DiffArgs,
    queue: &TaskQueue,
    places: &Places,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let (outcome, spec) = result(queue, &args.task.id)?;
    let mut directory = repository_of(spec)?;
    if let Some(admission) = admission(queue, places)? {
        directory = admission.repository(Some(&directory)).map_err(Failure::from)?;
    }
    let host = Host { places, launcher };
    let repository = Repository::of(&directory, host)?;
    let stdout = std::io::stdout().lock();
    let is_terminal = stdout.is_terminal();
    // No program that the repository's settings name is started: they are the user's, but its attributes are the result's.
    // Nor another git in a submodule, which takes the settings that it finds there (`diff.submodule`).
    let mut words = vec!["diff", "--no-ext-diff", "--no-textconv", "--no-color"];
    words.push("--submodule=short");
    words.extend(args.stat.then_some("--stat"));
    words.extend(["--end-of-options", outcome.base.as_str(), outcome.commit.as_str(), "--"]);
    let text = repository.host().run_with(&words, &[], None).map_err(Failure::new)?;
    let written = if is_terminal {
        let mut colours = Colours::new(stdout);
        let written = colours.write_all(&text);
        colours.end().and(written)
    } else {
        { stdout }.write_all(&text)
    };
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            pinfold_host::sys::die_of_broken_pipe();
            Ok(ExitCode::FAILURE)
        }
        written => written.map(|()| ExitCode::SUCCESS).map_err(Failure::new),
    }
}

/// Merges in a sandbox: git there runs what the repository asks for, and what it changes is looked at as after every run.
///
/// # Errors
/// Returns an error for a task of a shared queue that may not use its repository, as `pinfold work` does.
pub(super) fn apply(
    args: &IdArgs,
    queue: &TaskQueue,
    places: &Places,
) -> Result<ExitCode, Failure> {
    let (outcome, mut spec) = result(queue, &args.id)?;
    if let Some(admission) = admission(queue, places)? {
        spec = admission.admit(&spec).map_err(Failure::from)?;
    }
    let directory = repository_of(spec)?;
    let words: Vec<OsString> = ["run", "--", "git", "merge", "--no-edit", outcome.commit.as_str()]
        .map(OsString::from)
        .into();
    let status = run_own(&words, &directory, queue.store().variables())
        .map_err(|error| Failure::new(format!("cannot merge: {error}")))?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}
