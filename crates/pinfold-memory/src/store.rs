//! The embedded store: one SQLite file for each diary of each identity.

mod age;
mod change;
mod entries;
mod packs;
mod rendered;
mod repair;
mod row;
mod search;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use pinfold_content::{Clock, Timestamp, Uuid};
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_sqlite::Format;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{DiaryName, MemoryError, Signer, StoreError};

pub use entries::{Filter, TagCount};
pub use repair::Repaired;
pub use search::{Search, Weights};

/// The tables of a diary, marked "pfM1".
const FORMAT: Format = Format {
    application: 0x7066_4d31,
    steps: &[
        include_str!("store/schema-1.sql"),
        include_str!("store/schema-2.sql"),
        include_str!("store/schema-3.sql"),
    ],
};

/// Bytes of a diary at most unless its user says something else: some 400000 entries of 1 KiB with their words.
const QUOTA: u64 = 1 << 30;

/// Bytes beyond the quota for what a removal writes before it frees anything.
const SLACK: u64 = 64 << 20;

/// A diary. Clones of a process share nothing: each opens the file for itself.
pub struct Diary {
    connection: Mutex<Connection>,
    clock: Box<dyn Clock>,
    id: Uuid,
    signer: Option<Signer>,
    /// Bytes at most.
    quota: u64,
}

/// How large a diary becomes, and how old its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its file at most; 1 GiB without a number. A file that is larger already takes no more.
    pub size: Option<u64>,
    /// The age at which entries are removed; none are without one.
    pub keep: Option<Duration>,
}

impl std::fmt::Debug for Diary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Diary").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Diary {
    /// Opens a diary in pinfold's directory of states, and makes it if it is missing.
    ///
    /// # Errors
    /// Returns an error if another user could change it, or if the file is not a diary that this program knows.
    pub fn open(
        places: &Places,
        name: &DiaryName,
        clock: Box<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let path = name.path(places);
        if let Some(directory) = path.parent() {
            Places::make_private(directory)?;
        }
        Self::open_file(&path, name.id(), clock)
    }

    /// Opens a diary in a directory that nobody else can write to. A new one has this id, or one of its own.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn open_file(
        path: &Path,
        id: Option<Uuid>,
        clock: Box<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let mut connection = pinfold_sqlite::open(path, &FORMAT)?;
        limit(&connection, QUOTA)?;
        // What is removed is overwritten in the file.
        connection.pragma_update(None, "secure_delete", true)?;
        let id = identify(&mut connection, id, clock.now())?;
        Ok(Self { connection: Mutex::new(connection), clock, id, signer: None, quota: QUOTA })
    }

    /// Returns the same diary with its user's limits, without the entries that are too old.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn limited(self, limits: Limits) -> Result<Self, MemoryError> {
        let diary = Self { quota: limits.size.unwrap_or(QUOTA), ..self };
        limit(&diary.connection.lock(), diary.quota)?;
        if let Some(keep) = limits.keep {
            // What cannot be removed now, such as from a full disk, is when it is opened again: the diary stays usable.
            let _ = diary.remove_older(keep);
        }
        Ok(diary)
    }

    /// Returns the same diary, whose new entries are signed.
    #[must_use]
    pub fn signed_by(self, signer: Option<Signer>) -> Self {
        Self { signer, ..self }
    }

    /// Returns its id.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Returns when it was made.
    ///
    /// # Errors
    /// Returns the store's error.
    pub fn created_at(&self) -> Result<Timestamp, MemoryError> {
        self.read(|transaction, _| {
            let made = transaction.query_row("SELECT created_at FROM diary", [], |row| row.get(0));
            Ok(timestamp(made?)?)
        })
    }

    /// Writes a copy of the diary, as it is at one moment, to a file that must not be there.
    ///
    /// # Errors
    /// Returns an error if the file exists or cannot be written.
    pub fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        // SQLite takes `:memory:` and `file:…` for something else than the names of files.
        let to = &*std::path::absolute(to).at("find", to)?;
        let Some(name) = to.to_str() else {
            return Err(std::io::Error::from(std::io::ErrorKind::InvalidFilename).into());
        };
        // SQLite fills an empty file, and would make one that others may read.
        let mut create = OpenOptions::new();
        create.write(true).create_new(true).mode(0o600);
        drop(create.open(to).at("make", to)?);
        self.connection.lock().execute("VACUUM INTO ?1", [name]).map(drop).map_err(|error| {
            let _ = std::fs::remove_file(to);
            error.into()
        })
    }

    /// Runs work that writes, in one transaction that excludes others which write. It takes effect as a whole if the
    /// work succeeds, and not at all otherwise.
    fn write<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>, Timestamp) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        self.transact(TransactionBehavior::Immediate, work)
    }

    /// Runs work that removes something, also from a diary that is full.
    fn write_less(
        &self,
        work: impl FnOnce(&Transaction<'_>, Timestamp) -> Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        limit(&self.connection.lock(), self.quota.saturating_add(SLACK))?;
        let done = self.write(work);
        limit(&self.connection.lock(), self.quota)?;
        done
    }

    /// Runs work that only reads, in one transaction that sees one state.
    fn read<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>, Timestamp) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        self.transact(TransactionBehavior::Deferred, work)
    }

    fn transact<T>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&Transaction<'_>, Timestamp) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let mut connection = self.connection.lock();
        let transaction = connection.transaction_with_behavior(behavior)?;
        let done = work(&transaction, self.clock.now())?;
        // Dropped without it, the transaction never was.
        transaction.commit()?;
        Ok(done)
    }
}

/// Limits how large a file becomes. One that is larger already stays so.
fn limit(connection: &Connection, bytes: u64) -> Result<(), rusqlite::Error> {
    let size: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    connection.pragma_update(None, "max_page_count", (bytes / size.max(1)).max(1))
}

/// Returns the diary's id, and gives it one if it is new.
fn identify(
    connection: &mut Connection,
    id: Option<Uuid>,
    now: Timestamp,
) -> Result<Uuid, StoreError> {
    let find = |connection: &Connection| -> Result<Option<Uuid>, StoreError> {
        let mut statement = connection.prepare("SELECT id FROM diary")?;
        let mut rows = statement.query([])?;
        rows.next()?.map(|row| uuid(&row.get::<_, String>(0)?)).transpose()
    };
    if let Some(id) = find(connection)? {
        return Ok(id);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it since.
    if let Some(id) = find(&transaction)? {
        return Ok(id);
    }
    let id = id.map_or_else(Uuid::generate, Ok)?;
    transaction.execute(
        "INSERT INTO diary (id, created_at) VALUES (?1, ?2)",
        (id.to_string(), millis(now)),
    )?;
    transaction.commit()?;
    Ok(id)
}

fn uuid(text: &str) -> Result<Uuid, StoreError> {
    text.parse().map_err(|error| StoreError::invalid("id", error))
}

fn millis(time: Timestamp) -> i64 {
    // A timestamp is no larger than what a store can keep.
    i64::try_from(time.millis()).unwrap_or(i64::MAX)
}

fn timestamp(millis: i64) -> Result<Timestamp, StoreError> {
    let millis = u64::try_from(millis).map_err(|error| StoreError::invalid("time", error))?;
    Ok(Timestamp::from_millis(millis))
}

fn number<T: TryFrom<i64>>(what: &'static str, number: i64) -> Result<T, StoreError> {
    T::try_from(number).map_err(|_| StoreError::invalid(what, "it is out of range"))
}

#[cfg(test)]
mod tests;
