//! `pinfold import-group`: what Pynchy keeps of a group, as settings.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::directories::Places;
use pinfold_policy::document::SettingsFile;
use pinfold_policy::path::HostPath;
use pinfold_policy::settings::import_group;

use crate::exit::Failure;

/// More than these bytes are no row.
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Args)]
pub(crate) struct ImportGroupArgs {
    /// The group's name; its containerConfig is read from standard input as JSON
    group: String,
}

/// Prints what to put into `config.toml`.
pub(crate) fn import(args: &ImportGroupArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let home = HostPath::new(&places.home).map_err(Failure::new)?;
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(LARGEST).read_to_end(&mut bytes).map_err(Failure::new)?;
    let file = SettingsFile { path: Path::new("containerConfig.json"), bytes: &bytes };
    let text = import_group(file, &args.group, Some(&home)).map_err(|error| {
        let hint = error.hint();
        Failure::new(error).hint(hint)
    })?;
    crate::print::put(format_args!("{text}"));
    Ok(ExitCode::SUCCESS)
}
