//! Why a store fails.

use std::path::Path;

use pinfold_host::owned::OwnedError;
use pinfold_policy::path::Escaped;
use pinfold_sqlite::OpenError;

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
    #[error("{store} is not a task store: {reason}")]
    Foreign {
        /// Where it is.
        store: String,
        /// What is wrong.
        reason: String,
        /// What the user can do about it.
        hint: String,
    },
    /// A newer pinfold made it.
    #[error("{store} was made by a newer pinfold (format {found}, known: up to {known})")]
    Newer {
        /// Where it is.
        store: String,
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
    /// There is no connection to its server, or it was lost before anything was changed.
    #[error("the server of the task store cannot be used: {0}")]
    Unreachable(String),
    /// The connection was lost before the server confirmed a change.
    #[error(
        "the connection to the task store was lost, and the change may have been made or not: {0}"
    )]
    Undecided(String),
    /// Its server does not let the user in, or does not let the user do it.
    #[error("the server of the task store refuses: {0}")]
    Denied(String),
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
            Self::Busy
            | Self::Full
            | Self::ReadOnly
            | Self::Io(_)
            | Self::Unreachable(_)
            | Self::Undecided(_)
            | Self::Changed => true,
            Self::Foreign { .. }
            | Self::NotOwned(_)
            | Self::Newer { .. }
            | Self::Denied(_)
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
            Self::Foreign { hint, .. } => Some(hint.clone()),
            Self::Unreachable(_) => Some("workers go on until their leases end".to_owned()),
            Self::Undecided(_) => Some("`pinfold task ls --all` says which of both".to_owned()),
            Self::Denied(_) => {
                Some("the user needs a login, and once the right to make a schema".to_owned())
            }
            Self::Newer { .. } => Some("use that pinfold, or a newer one".to_owned()),
            Self::NotOwned(error) => error.hint(),
            _ => None,
        }
    }

    /// Returns an error for a file that is not a task store.
    fn foreign(path: &Path, reason: impl ToString) -> Self {
        let store = Escaped(path).to_string();
        let hint = format!("move {store} away; a new store is made then");
        Self::Foreign { store, reason: reason.to_string(), hint }
    }

    /// Returns an error for a stored value that cannot be read.
    pub(crate) fn invalid(what: &'static str, reason: impl ToString) -> Self {
        Self::Invalid { what, reason: reason.to_string() }
    }
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Foreign { path, reason } => Self::foreign(&path, reason),
            OpenError::Damaged { path, source } => Self::foreign(&path, source),
            OpenError::Newer { path, found, known } => {
                Self::Newer { store: Escaped(&path).to_string(), found, known }
            }
            OpenError::Io(error) => Self::Io(error),
            OpenError::NotOwned(error) => Self::NotOwned(error),
            OpenError::Database(error) => error.into(),
            other => Self::Database(Box::new(other)),
        }
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
