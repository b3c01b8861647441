//! `pinfold import-objects`: a helper process of `pinfold run` in `git = quarantine`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use pinfold_session::import::{Import, check, export};

use crate::exit::Failure;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Half {
    Export,
    Check,
}

/// What is imported, from where, to where.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    half: Half,
    host: PathBuf,
    copy: PathBuf,
    base: PathBuf,
    out: PathBuf,
}

pub(crate) fn import(args: ImportArgs) -> Result<ExitCode, Failure> {
    let ImportArgs { half, host, copy, base, out } = args;
    let import = Import { host, copy, base, out };
    let done = match half {
        Half::Export => export(&import),
        Half::Check => check(&import),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(Failure::new)
}
