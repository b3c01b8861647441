//! Why there is no system.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use pinfold_egress::UnusableProxy;
use pinfold_engines::image::ImageError;
use pinfold_policy::limits::ByteSize;
use pinfold_policy::path::Escaped;
use pinfold_provision::ShelfError;
use pinfold_registry::{InvalidReference, RegistryError};
use thiserror::Error;

/// Why a system is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SystemError {
    /// A base that names no image.
    #[error("snapshot.base: {0}")]
    Reference(#[from] InvalidReference),
    /// An image that is not available.
    #[error("snapshot.base: cannot get {base}: {source}")]
    Image {
        /// The base, as it was asked for.
        base: String,
        source: RegistryError,
    },
    /// An image of an engine's that is not available.
    #[error("snapshot.base: {0}")]
    Stored(#[from] ImageError),
    /// A proxy that cannot be used.
    #[error("{message}")]
    WayOut {
        /// What is wrong with it.
        message: String,
        hint: Option<String>,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A file or directory that cannot be used.
    #[error("snapshot.base: cannot use {}: {source}", Escaped(.path))]
    Path { path: PathBuf, source: io::Error },
    /// Something else lies there.
    #[error("snapshot.base: {} is not {what}", Escaped(.path))]
    NotWhatItSays {
        path: PathBuf,
        /// What it should be.
        what: &'static str,
    },
    /// This machine's programs lie on several file systems.
    #[error("snapshot.base: host cannot be used: {} is mounted among its programs", Escaped(.point))]
    MountedWithin {
        /// Where another one is mounted.
        point: PathBuf,
    },
    /// A file that somebody is writing.
    #[error("snapshot.base: {} changes while it is read", Escaped(.path))]
    Changing { path: PathBuf },
    /// Archives that cannot be unpacked.
    #[error("snapshot.base: cannot unpack {base}: {source}")]
    Unpack {
        /// The base, as it was asked for.
        base: String,
        source: Box<dyn Error + Send + Sync>,
    },
    /// Archives that are larger than what they may unpack to.
    #[error(
        "snapshot.base: {base} has {packed} bytes, more than {most}, the limit resources.build"
    )]
    TooLarge {
        /// The base, as it was asked for.
        base: String,
        /// Its bytes, as it is packed.
        packed: u64,
        /// How much it may be.
        most: ByteSize,
    },
    /// No space left, except what is left for others.
    #[error(
        "no space left in {} for {base}; free some, or set XDG_CACHE_HOME to another disk",
        Escaped(.dir)
    )]
    DiskFull {
        /// The base, as it was asked for.
        base: String,
        dir: PathBuf,
    },
    /// What a name stood for cannot be read or written.
    #[error(transparent)]
    Memo(io::Error),
}

impl SystemError {
    pub(super) fn way_out(error: UnusableProxy) -> Self {
        Self::WayOut { hint: Some(error.hint()), message: error.to_string() }
    }

    /// Returns the signal by which a user ended what an engine did.
    #[must_use]
    pub fn interrupted(&self) -> Option<i32> {
        match self {
            Self::Stored(ImageError::Interrupted(signal)) => Some(*signal),
            _ => None,
        }
    }

    /// Returns the hint, where the message does not say it already.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Image { source, .. } => source.hint(),
            Self::Stored(error) => error.hint(),
            Self::MountedWithin { .. } => {
                Some("name a base of its own (debian) under snapshot.base".to_owned())
            }
            Self::WayOut { hint, .. } => hint.clone(),
            Self::NotWhatItSays { .. } | Self::Path { .. } => Some(
                "name a directory or tarball by a path with / or ./, relative to the repository"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
