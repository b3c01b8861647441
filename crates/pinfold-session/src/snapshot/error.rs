//! Why there is no snapshot.

use std::io;

use pinfold_provision::ShelfError;
use thiserror::Error;

use crate::system::SystemError;

const REACHABLE: &str = "only package registries and snapshot.allowedHosts can be reached, which \
                         `pinfold snapshot inspect` lists";
const REPLACED: &str = "files of this machine's own system can be replaced, not changed: name a base \
                        (debian) under snapshot.base for that";

/// Why a snapshot cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Its base cannot be had.
    #[error(transparent)]
    Base(#[from] SystemError),
    /// The cache cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A command failed.
    #[error(
        "setup step \"snapshot.setupCommands[{index}]\" failed (exit {status}): {command}\n{tail}"
    )]
    Command {
        /// Which.
        index: usize,
        /// What it is, escaped.
        command: String,
        /// Its status.
        status: i32,
        /// The end of what it said.
        tail: String,
        /// Whether it ran on this machine's own system.
        over_host: bool,
    },
    /// Somebody ended the build.
    #[error("the build of the snapshot was interrupted; nothing of it is kept")]
    Interrupted {
        /// By this signal.
        signal: i32,
    },
    /// The build could not be run.
    #[error("cannot build the snapshot: {0}")]
    System(#[from] io::Error),
    /// A line of our own that is no rule.
    #[error("`{0}` in the list of build hosts is no rule")]
    BuildHost(String),
}

impl SnapshotError {
    /// The way out, where the message does not say it already.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Base(error) => error.hint(),
            Self::Command { over_host, .. } => Some(match over_host {
                false => REACHABLE.to_owned(),
                true => format!("{REACHABLE}; {REPLACED}"),
            }),
            _ => None,
        }
    }
}
