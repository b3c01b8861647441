//! `pinfold memory`: what agents remember.

mod add;
mod diary;
mod find;
mod list;
mod pack;
mod serve;
mod show;
mod tools;
mod transfer;

use std::process::ExitCode;

use clap::Subcommand;
use pinfold_content::SystemClock;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_memory::{Diary, MemoryError, StoreError};
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;

use crate::exit::Failure;
use crate::print::say;
pub(crate) use diary::{DiaryArgs, Scene};
pub(crate) use find::short;
pub(crate) use tools::tools;

#[derive(Debug, Subcommand)]
pub(crate) enum MemoryCommand {
    /// Add an entry
    Add(add::AddArgs),
    /// List entries, the newest first
    Ls(list::ListArgs),
    /// Search entries by words, "phrases", -words that they must not have, and `or`
    Search(list::SearchArgs),
    /// Show an entry
    Show(show::ShowArgs),
    /// Remove entries
    Rm(show::RemoveArgs),
    /// List tags, the most used first
    Tags(list::TagsArgs),
    /// Make a pack of entries for the next session, or list packs
    Pack(pack::PackArgs),
    /// Write a pack as Markdown
    Render(pack::RenderArgs),
    /// Print where a pack comes from, as a graph in JSON
    Provenance(pack::ProvenanceArgs),
    /// Write all entries to standard output, as JSON lines
    Export(transfer::ExportArgs),
    /// Add entries from JSON lines; those that are there already are left out
    Import(transfer::ImportArgs),
    /// Write a copy of the diary to a new file
    Backup(transfer::BackupArgs),
    /// Serve the diary to agents on other machines, by MoltNet's API
    Serve(serve::ServeArgs),
    /// Manage the keys of agents that may use served diaries
    #[command(subcommand)]
    Key(crate::task::KeyCommand),
    /// Make a new diary of all that can be read of a damaged one
    Repair(DiaryArgs),
}

pub(crate) fn memory(command: MemoryCommand, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let scene = Scene { places: &places, launcher };
    match command {
        MemoryCommand::Add(args) => add::add(args, &scene)?,
        MemoryCommand::Ls(args) => list::list(&args, &scene)?,
        MemoryCommand::Search(args) => list::search(&args, &scene)?,
        MemoryCommand::Show(args) => show::show(&args, &scene)?,
        MemoryCommand::Rm(args) => show::remove(&args, &scene)?,
        MemoryCommand::Tags(args) => list::tags(&args, &scene)?,
        MemoryCommand::Pack(args) => pack::pack(args, &scene)?,
        MemoryCommand::Render(args) => pack::render(&args, &scene)?,
        MemoryCommand::Provenance(args) => pack::provenance(&args, &scene)?,
        MemoryCommand::Export(args) => transfer::export(&args, &scene)?,
        MemoryCommand::Import(args) => transfer::import(&args, &scene)?,
        MemoryCommand::Backup(args) => transfer::back_up(&args, &scene)?,
        MemoryCommand::Serve(args) => return serve::serve(args, &scene),
        MemoryCommand::Key(command) => return serve::key(command, &scene),
        MemoryCommand::Repair(args) => repair(&args, &scene)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn repair(args: &DiaryArgs, scene: &Scene<'_>) -> Result<(), Failure> {
    let repaired = Diary::repair(scene.places, &args.name()?, Box::new(SystemClock))?;
    say!("{} entries were saved, {} lost", repaired.entries, repaired.lost);
    notify!("pinfold: the damaged file is {}", Escaped(&repaired.damaged));
    Ok(())
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        let hint = error.hint();
        Self::new(error).hint(hint)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        MemoryError::from(error).into()
    }
}
