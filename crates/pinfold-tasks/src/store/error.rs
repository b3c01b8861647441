//! Why a store fails.

use std::path::{Path, PathBuf};

use pinfold_host::owned::OwnedError;
use pinfold_policy::path::Escaped;

/// Why a store cannot be used, or not now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Others use it, for longer than is waited for.
    #[error("the task store is busy")]
    Busy,
    /// There is no space.
    #[error("the disk of the task store is full")]
    Full,
    /// It cannot be written to.
    #[error("the task store is read-only")]
    ReadOnly,
    /// It is damaged, or is another program's.
    #[error("{} is not a task store: {reason}", Escaped(.path))]
    Foreign {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer pinfold made it.
    #[error("{} was made by a newer pinfold (format {found}, known: up to {known})", Escaped(.path))]
    Newer {
        /// Its file.
        path: PathBuf,
        /// The format.
        found: i64,
        /// The newest one that is known here.
        known: i64,
    },
    /// Its file or directory cannot be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Another user could change what is in it, or it is no file.
    #[error(transparent)]
    NotOwned(#[from] OwnedError),
    /// A task was saved by somebody else since it was loaded.
    #[error("the task was changed at the same time")]
    Changed,
    /// There is such a task.
    #[error("a task with this id exists")]
    Exists,
    /// It holds something that this program never wrote.
    #[error("the task store holds an invalid {what}: {reason}")]
    Invalid {
        /// What it is.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Anything else that the database says.
    #[error("the task store failed: {0}")]
    Database(Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Returns whether the same may succeed a moment later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Busy | Self::Full | Self::ReadOnly | Self::Io(_) | Self::Changed => true,
            Self::Foreign { .. }
            | Self::NotOwned(_)
            | Self::Newer { .. }
            | Self::Exists
            | Self::Invalid { .. }
            | Self::Database(_) => false,
        }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy => Some("another process writes to it for long; try again".to_owned()),
            Self::Full => Some("`pinfold clean` makes space; nothing was lost".to_owned()),
            Self::ReadOnly => Some("make its file and directory writable for you".to_owned()),
            Self::Foreign { path, .. } => {
                Some(format!("move {} away; a new store is made then", Escaped(path)))
            }
            Self::Newer { .. } => Some("use that pinfold, or a newer one".to_owned()),
            Self::NotOwned(error) => error.hint(),
            _ => None,
        }
    }

    /// Returns an error for a file that is not a task store.
    pub(super) fn foreign(path: &Path, reason: impl ToString) -> Self {
        Self::Foreign { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Returns an error for a stored value that cannot be read.
    pub(super) fn invalid(what: &'static str, reason: impl ToString) -> Self {
        Self::Invalid { what, reason: reason.to_string() }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy,
            Some(Code::DiskFull) => Self::Full,
            Some(Code::ReadOnly) => Self::ReadOnly,
            Some(Code::SystemIoFailure | Code::CannotOpen) => {
                Self::Io(std::io::Error::other(error))
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Self::invalid("database", &error),
            _ => Self::Database(Box::new(error)),
        }
    }
}
