//! `pinfold task`: the queue of tasks, and what came of them.

mod add;
mod artifact;
mod find;
mod group;
mod land;
mod list;
mod options;
mod result;
mod serve;
mod show;
mod take;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_repository::digest_of_directory;
use pinfold_terminal::notify;

use crate::exit::Failure;
use crate::print::say;
use crate::task_queue;
pub(crate) use find::short;
use find::{IdArgs, find};
pub(crate) use options::{WorkOptions, settle};
pub(crate) use serve::{KeyCommand, ListenArgs, keys};

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Add a task to the queue
    Add(Box<add::AddArgs>),
    /// List tasks that have not ended, and with --all the others
    Ls(list::ListArgs),
    /// Show what a task asks for, its attempts and its result
    Show(show::ShowArgs),
    /// Show what ran in the last attempt, and what it printed
    Logs(show::LogsArgs),
    /// Print or save a file that an attempt kept with the task
    Artifact(artifact::ArtifactArgs),
    /// Show what the result changes
    Diff(result::DiffArgs),
    /// Merge the result into what is checked out, in a sandbox
    Apply(IdArgs),
    /// Merge accepted results into their bases, each verified once more as merged
    Land(land::LandArgs),
    /// Queue a task again that failed, expired or was cancelled
    Retry(IdArgs),
    /// Cancel a task, and end its attempt
    Cancel(CancelArgs),
    /// Remove a task that has ended; its branch stays
    Rm(IdArgs),
    /// Print the hash of a directory of sealed files, for [tasks.sealed] in config.toml
    Hash(HashArgs),
    /// Manage groups, which tasks and sessions may be of
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Add tasks that a group's agents ask for
    Take(take::TakeArgs),
    /// Serve a queue of tasks to workers on other machines (MoltNet's task API)
    Serve(serve::ServeArgs),
    /// Manage the agents that may use what is served, and their keys
    #[command(subcommand)]
    Key(serve::KeyCommand),
}

#[derive(Debug, clap::Args)]
pub(crate) struct HashArgs {
    /// The directory
    directory: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    task: IdArgs,
    /// Why, for those who look at it later
    #[arg(long, default_value = "cancelled by the user")]
    reason: String,
}

pub(crate) fn task(command: TaskCommand, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let queue = || task_queue::open(&places);
    match command {
        TaskCommand::Add(args) => {
            add::add(*args, &queue()?, Host { places: &places, launcher })?;
        }
        TaskCommand::Ls(args) => list::list(&args, &queue()?)?,
        TaskCommand::Show(args) => {
            show::show(&args, &queue()?, Host { places: &places, launcher })?;
        }
        TaskCommand::Logs(args) => show::logs(&args, &queue()?, &places)?,
        TaskCommand::Artifact(args) => artifact::artifact(&args, &places)?,
        TaskCommand::Diff(args) => return result::diff(&args, &queue()?, &places, launcher),
        TaskCommand::Apply(args) => return result::apply(&args, &queue()?, &places),
        TaskCommand::Land(args) => {
            return land::land(&args, &queue()?, Host { places: &places, launcher });
        }
        TaskCommand::Retry(args) => {
            let queue = queue()?;
            let task = find(&queue, &args.id)?;
            queue.retry(task.id)?;
            notify!("pinfold: queued again: {} ({})", task.title, short(task.id));
        }
        TaskCommand::Cancel(CancelArgs { task, reason }) => {
            let queue = queue()?;
            let task = find(&queue, &task.id)?;
            queue.cancel(task.id, &reason)?;
            notify!("pinfold: cancelled: {} ({})", task.title, short(task.id));
        }
        TaskCommand::Rm(args) => {
            let queue = queue()?;
            let task = find(&queue, &args.id)?;
            queue.remove(task.id)?;
            show::remove_logs(&places, &task);
            notify!("pinfold: removed: {} ({})", task.title, short(task.id));
        }
        TaskCommand::Hash(HashArgs { directory }) => {
            let failed = |error| Failure::new(format!("{}: {error}", Escaped(&directory)));
            say!("{}", digest_of_directory(&directory).map_err(failed)?);
        }
        TaskCommand::Group(command) => group::group(command, &places)?,
        TaskCommand::Take(args) => return take::take(&args, &queue()?, &places),
        TaskCommand::Serve(args) => return serve::serve(args, &places),
        TaskCommand::Key(command) => return serve::key(command, &places),
    }
    Ok(ExitCode::SUCCESS)
}
