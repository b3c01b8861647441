//! `pinfold config`: the settings that a run here would have, and who said so.

use std::process::ExitCode;

use clap::Args;
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::OriginRow;
use pinfold_terminal::notify;

use crate::cli::{Output, PolicyArgs};
use crate::exit::Failure;
use crate::policy;
use crate::print::{self, say};

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// Show for each value where it comes from, with file and line
    #[arg(long)]
    origins: bool,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    policy: PolicyArgs,
}

pub(crate) fn config(args: &ConfigArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let host = Host { places: &places, launcher };
    let start = policy::prepare(&args.policy, None, policy::presence(&args.policy), host)?;
    let settings = start.settings();
    let rows = settings.origins();
    if args.output.json {
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<OriginRow> = rows.into_iter().map(plain).collect();
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
    let values = rows.iter().map(|row| row.value.len()).max().unwrap_or(0).min(40);
    for row in rows {
        if args.origins {
            say!("{:<width$}  {:<values$}  {}", row.key, row.value, row.origin);
        } else {
            say!("{:<width$}  {}", row.key, row.value);
        }
    }
    for widening in settings.waiting() {
        notify!("pinfold: note: waits for `pinfold trust`: {widening}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the row for a terminal, which a repository's values must not drive.
fn plain(row: OriginRow) -> OriginRow {
    OriginRow { value: Escaped(row.value.as_ref()).to_string(), ..row }
}
