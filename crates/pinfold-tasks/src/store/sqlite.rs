//! The embedded store: one SQLite file that the processes of one user share.

mod database;
mod schema;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use pinfold_host::directories::{self, Places};
use pinfold_host::io::{AtPath as _, lock};
use pinfold_host::owned;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{SqlTransaction, Store, StoreError};
use crate::time::Clock;
use database::SqliteDatabase;

/// How long a transaction waits for those of others.
const PATIENCE: Duration = Duration::from_secs(10);
/// Statements that are kept parsed.
const STATEMENTS: usize = 32;

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
    /// Opens the store in pinfold's directory of states, and makes it if there is none. Its directory and files
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
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(StoreError::foreign(path, "it is a directory"));
        };
        // SQLite refuses a path with a link in it (`SQLITE_OPEN_NOFOLLOW`), and files are checked without any.
        let directory = directories::resolved(directory);
        owned::check_directory(&directory)?;
        let path = &*directory.join(name);
        // SQLite gives its log and its index the permissions of the database.
        let mut create = OpenOptions::new();
        create.read(true).write(true).create_new(true).mode(0o600);
        match create.open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => check(path)?,
            made => drop(made.at("make", path)?),
        }
        for ending in ["-wal", "-shm"] {
            check(&with_ending(path, ending))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let connection = Connection::open_with_flags(path, flags)?;
        Self::prepare(connection, path, clock)
    }

    /// Makes a store in memory, which ends with the value.
    ///
    /// # Errors
    /// Returns the database's error.
    pub fn in_memory(clock: Box<dyn Clock>) -> Result<Self, StoreError> {
        Self::prepare(Connection::open_in_memory()?, Path::new(":memory:"), clock)
    }

    fn prepare(
        mut connection: Connection,
        path: &Path,
        clock: Box<dyn Clock>,
    ) -> Result<Self, StoreError> {
        let foreign = |error: rusqlite::Error| match StoreError::from(error) {
            StoreError::Invalid { reason, .. } => StoreError::foreign(path, reason),
            other => other,
        };
        connection.busy_timeout(PATIENCE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // A file that somebody gave us must not run what its schema says.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        schema::check(&connection, path).map_err(|error| match error {
            schema::Problem::Store(error) => error,
            schema::Problem::Database(error) => foreign(error),
        })?;
        // Readers go on while one process writes. Each commit is on the disk when it returns: an accepted result
        // must not be lost with the machine.
        connection.pragma_update(None, "journal_mode", "wal").map_err(foreign)?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        schema::migrate(&mut connection, path)?;
        Ok(Self { connection: Mutex::new(connection), clock })
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
        let mut connection = lock(&self.connection);
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

/// Checks that a file, if it is there, is the user's and that nobody else can write to it.
fn check(path: &Path) -> Result<(), StoreError> {
    Ok(owned::open(path).map(drop)?)
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests;
