//! Why an archive cannot be applied.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use super::budget::MOST_ENTRIES;

/// Why an archive cannot be applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// It is no archive, or only a part of one.
    #[error("the archive is damaged: {}", plain(.0))]
    Damaged(io::Error),
    /// It is packed in a way that is not read here.
    #[error("the archive is packed by {how}, which is not read here; pack it by gzip or zstd")]
    Packed {
        /// The program that packed it.
        how: &'static str,
    },
    /// It is not the image that was asked for.
    #[error("what was saved is not the image that was asked for: it has {what}")]
    NotSaved {
        /// What differs.
        what: &'static str,
    },
    /// It holds something that no honest archive does.
    #[error("the archive holds `{name}`, {why}; it is refused")]
    Refused {
        /// The entry's name, escaped.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It holds more than a system may.
    #[error("the archives unpack to more than {most} bytes, the limit resources.build")]
    TooMuch {
        /// How much it may be.
        most: u64,
    },
    /// It holds more names than a system may.
    #[error("the archives unpack to more than {MOST_ENTRIES} entries")]
    TooMany,
    /// What is left of the disk is for others.
    #[error("the disk is nearly full")]
    NoRoom,
    /// It unpacks to far more than what it was packed to.
    #[error("the archive unpacks to more than {times} times its size: it is refused as a bomb")]
    Bomb {
        /// The ratio from which it is refused.
        times: u64,
    },
    /// An archive or the tree could not be used.
    #[error("cannot use {}: {source}", plain(path.display()))]
    File {
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

impl LayerError {
    pub(super) fn damaged(error: io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Bomb>()) {
            Some(Bomb(times)) => Self::Bomb { times: *times },
            None => Self::Damaged(error),
        }
    }

    pub(super) fn refused(name: &[u8], why: &'static str) -> Self {
        let shown = name.escape_ascii().to_string().chars().take(200).collect();
        Self::Refused { name: shown, why }
    }

    pub(super) fn file(path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self + '_ {
        |errno| Self::File { path: path.to_owned(), source: errno.into() }
    }

    /// Returns whether the disk or a quota is full, which is reported differently.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        let full = |source: &io::Error| {
            matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
        };
        match self {
            Self::File { source, .. } => full(source),
            Self::NoRoom => true,
            _ => false,
        }
    }
}

/// Returns words that may quote an archive, cut and without what would control a terminal.
fn plain(words: impl Display) -> String {
    const LONGEST: usize = 1000;
    words.to_string().chars().take(LONGEST).flat_map(char::escape_debug).collect()
}

/// What a reader says that was asked to unpack a bomb.
#[derive(Debug, thiserror::Error)]
#[error("more than {0} times its size")]
pub(super) struct Bomb(pub(super) u64);
