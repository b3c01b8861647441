//! Why there is no snapshot.

use std::io;
use std::path::PathBuf;

use pinfold_policy::limits::ByteSize;
use pinfold_policy::path::Escaped;
use pinfold_policy::settings::SettingsError;
use pinfold_provision::ShelfError;
use pinfold_rootfs::system::SystemError;
use thiserror::Error;

use crate::outcome::{LimitReached, RunError};

const REACHABLE: &str = "only package registries and snapshot.allowedHosts can be reached, which \
                         `pinfold snapshot inspect` lists";
const REPLACED: &str = "files of this machine's own system can be replaced, not changed, moved or \
                        linked to: put a copy in place first (cp -p F F.own && mv F.own F), or name \
                        a base (debian) under snapshot.base";
const NOT_NEXT_TO: &str = "directories can be made below those of the system (/opt, /srv, /var), not next to \
                      them, and of /home there is /home/agent alone";
/// What programs say of what cannot be done to a file of somebody who does not exist inside: the
/// kernel's EACCES, EPERM and EOVERFLOW, as strerror(3) has them.
const REFUSALS: [&str; 3] =
    ["Permission denied", "Operation not permitted", "Value too large for defined data type"];
/// And of what would lie next to the system's directories: EROFS, and useradd(8) of any failure.
const OUTSIDE: [&str; 2] = ["Read-only file system", "cannot create directory /home"];
/// What programs say of ENOSPC (strerror(3)), whose files may be gone before anybody looks.
const FULL: &str = "No space left on device";
const ROOM: &str = "free some space (`pinfold snapshot prune --all` removes what no session uses), or \
                    set XDG_CACHE_HOME to a directory on another disk";

/// Why a snapshot is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Its base is not available.
    #[error(transparent)]
    Base(#[from] SystemError),
    /// The cache cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    #[error(
        "setup step \"snapshot.setupCommands[{index}]\" failed (exit {status}): {command}\n{tail}"
    )]
    Command {
        /// The place in the list, from 0.
        index: usize,
        /// What it is, escaped.
        command: String,
        status: i32,
        /// The end of what it said.
        tail: String,
        /// Whether it ran on this machine's own system.
        over_host: bool,
        /// The limit that ended or hindered it.
        limit: Option<LimitReached>,
    },
    /// Commands wrote more than a build may.
    #[error(
        "set-up commands wrote more than {most} to the disk, the limit resources.build: {during}"
    )]
    TooMuch {
        /// How much it may be.
        most: ByteSize,
        /// What was being done: the command, and the end of what it said.
        during: String,
    },
    /// What is left of the disk is for others.
    #[error("the disk of {} is nearly full, so set-up commands were ended: {during}", Escaped(.dir))]
    NoRoom {
        dir: PathBuf,
        /// What was being done: the command, and the end of what it said.
        during: String,
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
    /// The administrator's policy does not allow it.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A line of our own that is no rule.
    #[error("`{0}` in the list of build hosts is not a valid rule")]
    BuildHost(String),
}

impl SnapshotError {
    /// Returns the signal by which a user ended what an engine did.
    #[must_use]
    pub fn interrupted(&self) -> Option<i32> {
        match self {
            Self::Base(error) => error.interrupted(),
            _ => None,
        }
    }

    /// Returns the hint, where the message does not say it already.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Base(error) => error.hint(),
            Self::Settings(error) => error.hint(),
            Self::Command { limit: Some(LimitReached::Timeout), .. } => Some(
                "a command has an hour, or what the administrator's policy allows: split it"
                    .to_owned(),
            ),
            Self::Command { limit: Some(limit), .. } => {
                Some(format!("raise `{}` under [resources] in config.toml", limit.name()))
            }
            Self::Command { tail, .. } if tail.contains(FULL) => Some(ROOM.to_owned()),
            Self::Command { tail, over_host, .. } => {
                let says = |signs: &[&str]| signs.iter().any(|sign| tail.contains(sign));
                let hint = if says(&OUTSIDE) {
                    NOT_NEXT_TO
                } else if *over_host && says(&REFUSALS) {
                    REPLACED
                } else {
                    REACHABLE
                };
                Some(hint.to_owned())
            }
            Self::TooMuch { .. } => Some(
                "raise `build` under [resources] in config.toml, or have the commands remove what is \
                 not needed"
                    .to_owned(),
            ),
            Self::NoRoom { .. } => Some(
                ROOM.to_owned()),
            _ => None,
        }
    }
}

impl From<SnapshotError> for RunError {
    fn from(error: SnapshotError) -> Self {
        let hint = error.hint();
        Self::refused(error, hint)
    }
}
