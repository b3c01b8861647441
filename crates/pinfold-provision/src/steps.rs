//! What the cache asks of others, and what it reports while it works.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Integrity;

/// One tarball to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// `name@version`, for messages.
    pub package: String,
    /// Where it is.
    pub url: String,
    /// What it must be.
    pub integrity: Integrity,
    /// Its bytes, when the recipe knows: more need not be read.
    pub size: Option<u64>,
    /// The file to create. Its directory exists.
    pub file: PathBuf,
}

/// How far a download is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fetched {
    /// Tarballs that are complete.
    pub packages: usize,
    /// Bytes written, of complete and of running downloads.
    pub bytes: u64,
}

/// What [`Cache::ensure`](crate::Cache::ensure) is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Another start is making the same layer; this one waits for it.
    Waiting,
    /// Tarballs are coming in.
    Fetching {
        /// How far.
        done: Fetched,
        /// Tarballs in all.
        packages: usize,
        /// Bytes in all, when the recipe knows every size.
        bytes: Option<u64>,
    },
    /// The digests of what came in are compared once more.
    Verifying,
    /// The boundary is unpacking.
    Unpacking,
    /// The layer is made read-only and put in its place.
    Sealing,
}

/// Downloads tarballs. It runs on the host and must not look into what it downloads.
pub trait Fetch {
    /// Downloads every job into its file, comparing digests as the bytes come in.
    ///
    /// # Errors
    /// Returns an error for the first download that failed for good; the files of the others may be
    /// left.
    fn fetch_all(&self, jobs: &[Job], progress: &dyn Fn(Fetched)) -> Result<(), StepError>;
}

/// Runs [`unpack::unpack_dir`](crate::unpack::unpack_dir) inside a boundary that has no network.
pub trait Unpack {
    /// Unpacks what lies in `tarballs` (to be mounted read-only) into `tree` (read-write, empty).
    ///
    /// # Errors
    /// Returns an error if the boundary did not start, or the unpacker said no.
    fn unpack(&self, tarballs: &Path, tree: &Path) -> Result<(), StepError>;
}

/// Why a step that was handed in failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// No space or quota left; the cache says where.
    #[error("no space left")]
    DiskFull,
    /// Anything else, in words that name the thing.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
}

impl StepError {
    /// Returns a failure in words.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

impl From<io::Error> for StepError {
    fn from(error: io::Error) -> Self {
        if is_disk_full(&error) { Self::DiskFull } else { Self::failed(error) }
    }
}

/// Returns whether the cause is a full disk or a used-up quota.
pub(crate) fn is_disk_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
