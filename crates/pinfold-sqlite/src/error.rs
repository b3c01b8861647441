//! Why a file is not opened.

use std::path::{Path, PathBuf};

use pinfold_host::owned::OwnedError;
use pinfold_policy::path::Escaped;
use rusqlite::ErrorCode;

/// Why a file cannot be used, or not now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is no database, empty, or another program's.
    #[error("{} cannot be used: {reason}", Escaped(.path))]
    Foreign {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A part of it is missing or overwritten.
    #[error("{} is damaged: {source}", Escaped(.path))]
    Damaged { path: PathBuf, source: rusqlite::Error },
    /// A newer program made it.
    #[error("{} is of format {found}, known: up to {known}", Escaped(.path))]
    Newer {
        path: PathBuf,
        found: i64,
        /// The newest one that is known here.
        known: i64,
    },
    /// The file or its directory cannot be used.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Another user could change what is in it, or it is no file.
    #[error(transparent)]
    NotOwned(#[from] OwnedError),
    /// Anything else that the database says.
    #[error("the database failed: {0}")]
    Database(rusqlite::Error),
}

impl OpenError {
    pub(crate) fn foreign(path: &Path, reason: impl ToString) -> Self {
        Self::Foreign { path: path.to_owned(), reason: reason.to_string() }
    }

    /// Returns the error for what a database says while it is opened.
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseCorrupt) => {
                Self::Damaged { path: path.to_owned(), source: error }
            }
            Some(ErrorCode::NotADatabase) => Self::foreign(path, error),
            _ => Self::Database(error),
        }
    }
}
