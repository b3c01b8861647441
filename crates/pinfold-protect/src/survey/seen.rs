//! What a walk saw, for the next one.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_host::file_id::FileId;
use rustix::fs::{Stat, Statx, makedev};

/// A directory as it was seen, with the visitor's note about it.
#[derive(Debug, Clone)]
pub(super) struct Seen<Z> {
    /// Relative to the walk's root; empty for the root.
    pub(super) path: Vec<u8>,
    pub(super) state: State,
    pub(super) zone: Z,
}

/// Which directory it is, and the last change of its inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    pub(super) inode: (u64, u64),
    pub(super) changed: (i64, u64),
}

impl State {
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "their types differ between architectures"
    )]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            inode: (stat.st_dev.into(), stat.st_ino.into()),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }

    pub(super) fn of_statx(found: &Statx) -> Self {
        Self {
            inode: (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino),
            changed: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec.into()),
        }
    }
}

/// What a walk saw.
#[derive(Debug, Default)]
pub struct Walk<Z> {
    /// The directories that it entered.
    pub(super) seen: Vec<Seen<Z>>,
    /// Those that it could not look into.
    pub(super) unseen: Vec<Unseen>,
    /// The paths of the former, once somebody asks for one.
    pub(super) paths: OnceLock<HashSet<Vec<u8>>>,
}

impl<Z> Walk<Z> {
    /// Returns whether the walk entered the directory at this path, relative to its root.
    pub fn has_seen(&self, path: &Path) -> bool {
        let paths = || self.seen.iter().map(|seen| seen.path.clone()).collect();
        self.paths.get_or_init(paths).contains(path.as_os_str().as_bytes())
    }

    /// Returns the directories that it could not look into.
    pub fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }
}

/// A directory that a walk could not look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unseen {
    /// Relative to the walk's root.
    pub path: PathBuf,
    /// Which directory it is, if that is known.
    pub(super) id: Option<FileId>,
    pub why: Obstacle,
}

/// Why a directory was not looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// It may not be read.
    Closed,
    /// It lies more than `DEEPEST` levels below the root, or its path is longer than `LONGEST`.
    TooDeep,
}
