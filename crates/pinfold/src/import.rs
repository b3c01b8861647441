//! `pinfold import-objects` and `read-repository`: helper processes of `pinfold run`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use pinfold_workspace::git::import::{self, Import, bring, check, export};

use crate::exit::Failure;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Part {
    Export,
    Check,
    Bring,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    part: Part,
    host: PathBuf,
    copy: PathBuf,
    base: PathBuf,
    out: PathBuf,
}

pub(crate) fn import(args: ImportArgs) -> Result<ExitCode, Failure> {
    let ImportArgs { part, host, copy, base, out } = args;
    let import = Import { host, copy, base, out };
    let done = match part {
        Part::Export => export(&import),
        Part::Check => check(&import),
        Part::Bring => bring(&import),
    };
    done.map(|()| ExitCode::SUCCESS).map_err(Failure::new)
}

#[derive(Debug, Args)]
pub(crate) struct RepositoryArgs {
    copy: PathBuf,
    out: PathBuf,
    /// Pairs of a directory of objects on the host and the path that the repository knows.
    borrowed: Vec<PathBuf>,
}

pub(crate) fn read(args: &RepositoryArgs) -> Result<ExitCode, Failure> {
    let pairs = args.borrowed.chunks_exact(2);
    let borrowed: Vec<_> = pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect();
    let read = import::read_repository(&args.copy, &args.out, &borrowed);
    read.map(|()| ExitCode::SUCCESS).map_err(Failure::new)
}
