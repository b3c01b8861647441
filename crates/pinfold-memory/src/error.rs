//! Why memory refuses or fails.

use std::path::{Path, PathBuf};

use pinfold_content::Uuid;
use pinfold_host::owned::OwnedError;
use pinfold_policy::path::Escaped;
use pinfold_sqlite::OpenError;
use rusqlite::ErrorCode;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A value is not one that may be there.
    #[error("{field} {reason}")]
    Invalid {
        /// Which one, as a JSON pointer.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A value holds a secret of this machine.
    #[error("{field} holds the secret `{secret}`, which must not be remembered")]
    Secret {
        /// Which one, as a JSON pointer.
        field: &'static str,
        /// The secret's name.
        secret: String,
    },
    /// A line that should be JSON is not.
    #[error("{0}")]
    BadLine(String),
    /// There is no such entry in this diary.
    #[error("no entry {0} in this diary")]
    NoEntry(Uuid),
    /// There is no such pack in this diary.
    #[error("no pack {0} in this diary")]
    NoPack(String),
    /// Entries of a pack are not in this diary.
    #[error("Entries not found in diary {diary}: {entries}")]
    NoEntries {
        diary: Uuid,
        /// Their ids, by commas.
        entries: String,
    },
    /// A pack cannot be made of this.
    #[error("{0}")]
    BadPack(String),
    /// Entries of a pack read like instructions to a model.
    #[error(
        "Pack contains {} entry(ies) flagged as prompt-injection risk; pass force: true to override.",
        .0.len()
    )]
    Flagged(Vec<Uuid>),
    /// A pack with this content supersedes another pack.
    #[error("a pack with this content supersedes another pack")]
    Conflict,
    /// A signed entry cannot be changed.
    #[error("Entry is content-signed and immutable; it cannot be changed or removed here")]
    Signed,
    /// An entry with this signature is there already.
    #[error("This signing request has already been used to create an entry")]
    SignatureUsed,
    /// The server does not know the key that entries are to be signed with.
    #[error("the server does not know the key {0} as its client's")]
    UnknownKey(String),
    /// No diary of the server has this name, or several have it.
    #[error("{count} diaries of the server are called {}", Escaped(Path::new(.name)))]
    NoDiary { name: String, count: usize },
    /// The server gave something of another diary.
    #[error("{0} not found")]
    NotInDiary(&'static str),
    /// An entry was added to a server's diary, and does not take the place of the one that it should.
    #[error("the entry {entry} was added, and does not take the place of {older}: {cause}")]
    Partly { entry: Uuid, older: Uuid, cause: Box<MemoryError> },
    /// The server refused or failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The server's answer cannot be believed.
    #[error("the server's answer cannot be used: {0}")]
    Untrusted(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MemoryError {
    pub(crate) fn invalid(field: &'static str, reason: impl ToString) -> Self {
        Self::Invalid { field, reason: reason.to_string() }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Secret { .. } => Some("leave the value out; its name is enough".to_owned()),
            Self::NoEntry(_) | Self::NoEntries { .. } => {
                Some("`pinfold memory ls` lists entries".to_owned())
            }
            Self::NoPack(_) => Some(
                "`pinfold memory pack` lists packs; those that are not pinned end after 7 days"
                    .to_owned(),
            ),
            Self::Flagged(entries) => {
                let ids: Vec<String> = entries.iter().map(Uuid::to_string).collect();
                Some(format!("look at {}", ids.join(", ")))
            }
            Self::Store(error) => error.hint(),
            Self::UnknownKey(_) => {
                Some("have the server register it, or leave --sign out".to_owned())
            }
            Self::NoDiary { .. } => Some("name it by its id".to_owned()),
            Self::Invalid { .. }
            | Self::BadLine(_)
            | Self::BadPack(_)
            | Self::Conflict
            | Self::Signed
            | Self::SignatureUsed
            | Self::NotInDiary(_)
            | Self::Partly { .. }
            | Self::Server(_)
            | Self::Untrusted(_) => None,
        }
    }
}

impl From<rusqlite::Error> for MemoryError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Why a server gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ServerError {
    /// The status of its answer, if there is one.
    pub status: Option<u16>,
    /// What it says, as its title and its detail.
    pub text: String,
}

/// Why a store cannot be used, or not now.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Others use it, for longer than is waited for.
    #[error("the diary is busy")]
    Busy,
    /// There is no space on the disk, or the diary is as large as it may be.
    #[error("the disk or the diary is full")]
    Full,
    /// It cannot be written to.
    #[error("the diary is read-only")]
    ReadOnly,
    /// Its file is damaged.
    #[error("the diary is damaged: {0}")]
    Damaged(String),
    /// Its file is damaged where it says what is in it.
    #[error("nothing of the diary {} can be read: {reason}", Escaped(.path))]
    Unreadable {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// Its file is not a diary.
    #[error("{} is not a diary: {reason}", Escaped(.path))]
    Foreign {
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A newer pinfold made it.
    #[error("{} was made by a newer pinfold (format {found}, known: up to {known})", Escaped(.path))]
    Newer {
        path: PathBuf,
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
    /// It holds something that this program never wrote.
    #[error("the diary holds an invalid {what}: {reason}")]
    Invalid {
        /// What it is.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// Anything else that the database says.
    #[error("the diary failed: {0}")]
    Database(rusqlite::Error),
}

impl StoreError {
    pub(crate) fn invalid(what: &'static str, reason: impl ToString) -> Self {
        Self::Invalid { what, reason: reason.to_string() }
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy => Some("another process writes to it for long; try again".to_owned()),
            Self::Full => Some(
                "`pinfold clean` makes space, `pinfold memory rm` removes entries; nothing was lost"
                    .to_owned(),
            ),
            Self::ReadOnly => Some("make its file and directory writable for you".to_owned()),
            Self::Damaged(_) | Self::Invalid { .. } => Some(
                "`pinfold memory repair` makes a new one of all that can be read, and keeps the old file"
                    .to_owned(),
            ),
            Self::Unreadable { path, .. } => Some(format!(
                "put a copy in its place (`pinfold memory backup` makes one), or {}. `sqlite3 FILE .recover` may find more",
                away(path)
            )),
            Self::Foreign { path, .. } => Some(away(path)),
            Self::Newer { .. } => Some("use that pinfold, or a newer one".to_owned()),
            Self::NotOwned(error) => error.hint(),
            Self::Io(_) | Self::Database(_) => None,
        }
    }
}

fn away(path: &Path) -> String {
    format!("move {} away; a new diary is made then", Escaped(path))
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Foreign { path, reason } => Self::Foreign { path, reason },
            OpenError::Damaged { path, source } => {
                Self::Damaged(format!("{}: {source}", Escaped(&path)))
            }
            OpenError::Newer { path, found, known } => Self::Newer { path, found, known },
            OpenError::Io(error) => Self::Io(error),
            OpenError::NotOwned(error) => Self::NotOwned(error),
            OpenError::Database(error) => error.into(),
            other => Self::Io(std::io::Error::other(other)),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
                Self::Io(std::io::Error::other(error))
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged(error.to_string())
            }
            _ => Self::Database(error),
        }
    }
}
