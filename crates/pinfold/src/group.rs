//! `pinfold import-group`: what Pynchy keeps of a group, as settings.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::{import_group, import_groups};

use crate::exit::Failure;

/// More than these bytes are no rows.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct ImportGroupArgs {
    /// The group's name, with its containerConfig on standard input as JSON; without it, whole rows of registered_groups, as
    /// `sqlite3 -json` prints them
    group: Option<String>,
}

/// Prints what to put into `config.toml`.
pub(crate) fn import(args: &ImportGroupArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let home = HostPath::new(&places.home).map_err(Failure::new)?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(LARGEST).read_to_end(&mut bytes).map_err(Failure::new)?;
    let text = match &args.group {
        Some(group) => {
            let file = SettingsFile { path: Path::new("containerConfig.json"), bytes: &bytes };
            import_group(file, group, Some(&home))
        }
        None => {
            let file = SettingsFile { path: Path::new("registered_groups.json"), bytes: &bytes };
            import_groups(file, Some(&home))
        }
    };
    let text = text.map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    crate::print::put(format_args!("{text}"));
    Ok(ExitCode::SUCCESS)
}
