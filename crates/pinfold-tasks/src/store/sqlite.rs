//! The embedded store: one SQLite file that the processes of one user share.

mod database;

use std::path::Path;

use parking_lot::Mutex;
use pinfold_content::Clock;
use pinfold_host::directories::Places;
use pinfold_sqlite::Format;
use rusqlite::{Connection, TransactionBehavior};

use super::{SqlTransaction, Store, StoreError};
use crate::id::TaskId;
use database::SqliteDatabase;

/// The tables of a store, marked "pfQ1".
const FORMAT: Format = Format {
    application: 0x7066_5131,
    steps: &[
        include_str!("sqlite/schema-1.sql"),
        include_str!("sqlite/schema-2.sql"),
        include_str!("sqlite/schema-3.sql"),
    ],
};

/// An embedded store. Clones of a process share nothing: each opens the file for itself.
pub struct SqliteStore {
    connection: Mutex<Connection>,
    clock: Box<dyn Clock>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in pinfold's directory of states, and makes it if it is missing. Its directory and files
    /// are the user's alone.
    ///
    /// # Errors
    /// Returns an error if another user could change it, or if the file is not a store that this program knows.
    pub fn open(places: &Places, clock: Box<dyn Clock>) -> Result<Self, StoreError> {
        let directory = places.state.join("tasks");
        Places::make_private(&directory)?;
        Self::open_file(&directory.join("queue.db"), clock)
    }

    /// Opens a store in a directory that nobody else can write to. The last part of the path is no link.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn open_file(path: &Path, clock: Box<dyn Clock>) -> Result<Self, StoreError> {
        Ok(Self { connection: Mutex::new(pinfold_sqlite::open(path, &FORMAT)?), clock })
    }

    /// Makes a store in memory, which ends with the value.
    ///
    /// # Errors
    /// Returns the database's error.
    pub fn in_memory(clock: Box<dyn Clock>) -> Result<Self, StoreError> {
        Ok(Self { connection: Mutex::new(pinfold_sqlite::in_memory(&FORMAT)?), clock })
    }
}

impl Store for SqliteStore {
    type Transaction<'a> = SqlTransaction<'a>;

    fn write<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Immediate, work)
    }

    /// Excludes all others: a file has one writer at a time.
    fn write_task<T, E: From<StoreError>>(
        &self,
        _: TaskId,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.write(work)
    }

    fn read<T, E: From<StoreError>>(
        &self,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transact(TransactionBehavior::Deferred, work)
    }
}

impl SqliteStore {
    fn transact<T, E: From<StoreError>>(
        &self,
        behavior: TransactionBehavior,
        work: impl FnOnce(&mut SqlTransaction<'_>) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut connection = self.connection.lock();
        let database = connection.transaction_with_behavior(behavior).map_err(StoreError::from)?;
        // Only now: to get here may have taken as long as others wrote.
        let now = self.clock.now();
        let mut database = SqliteDatabase(database);
        let done = work(&mut SqlTransaction::new(&mut database, now))?;
        // Dropped without it, the transaction never was.
        database.0.commit().map_err(StoreError::from)?;
        Ok(done)
    }
}

#[cfg(test)]
mod tests;
