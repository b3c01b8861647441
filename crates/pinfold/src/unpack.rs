//! `pinfold unpack` and `pinfold unpack-system`: run inside a boundary, where packages and systems are
//! unpacked.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pinfold_provision::unpack::unpack_dir;
use pinfold_rootfs::unpack::{DISK_FULL, SAVED};
use pinfold_snapshot::layer::{Budget, MOST_ENTRIES, apply_all, apply_saved};
use pinfold_terminal::notify;

#[derive(Debug, Args)]
pub(crate) struct UnpackArgs {
    tarballs: PathBuf,
    tree: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct UnpackSystemArgs {
    /// Bytes that it may unpack to.
    #[arg(long)]
    most: u64,
    /// The digest of a layer of the one saved image that lies there
    #[arg(long)]
    layer: Vec<String>,
    #[command(flatten)]
    places: UnpackArgs,
}

pub(crate) fn unpack(args: &UnpackArgs) -> ExitCode {
    match unpack_dir(&args.tarballs, &args.tree) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            notify!("{error}");
            if error.is_disk_full() { ExitCode::from(DISK_FULL) } else { ExitCode::FAILURE }
        }
    }
}

pub(crate) fn unpack_system(args: &UnpackSystemArgs) -> ExitCode {
    let UnpackArgs { tarballs, tree } = &args.places;
    let budget = Budget::new(args.most, MOST_ENTRIES);
    let applied = match args.layer.as_slice() {
        [] => apply_all(tarballs, tree, budget),
        layers => apply_saved(&tarballs.join(SAVED), layers, tree, budget),
    };
    match applied {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            notify!("{error}");
            if error.is_disk_full() { ExitCode::from(DISK_FULL) } else { ExitCode::FAILURE }
        }
    }
}
