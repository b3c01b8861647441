//! `pinfold look-at-worktree`: a helper process at the end of a run in a dedicated worktree.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_worktree::dedicated::WorktreeFiles;

use crate::exit::Failure;
use crate::print::say;

#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    git: PathBuf,
    own: PathBuf,
    top: PathBuf,
    out: PathBuf,
    commit: String,
}

/// Prints `clean` or `changed`.
pub(crate) fn look(args: LookArgs) -> Result<ExitCode, Failure> {
    let LookArgs { git, own, top, out, commit } = args;
    let files = WorktreeFiles { git, own, top, out };
    let is_clean = files.is_clean(&commit).map_err(Failure::new)?;
    say!("{}", if is_clean { "clean" } else { "changed" });
    Ok(ExitCode::SUCCESS)
}
