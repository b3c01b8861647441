//! SQLite files that processes of one user share.
//!
//! A file is opened only if nobody else can change it, and if it is of a [`Format`] that this program knows. It is made
//! whole, so one that is empty was cut off, and is refused. An older one is brought to today's format in one transaction. Readers go on while one process writes, and each commit is on the disk
//! when it returns.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod error;
mod format;
mod make;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_host::directories;
use pinfold_host::io::AtPath as _;
use pinfold_host::owned;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

pub use error::OpenError;
pub use format::Format;

/// How long a transaction waits for those of others.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon it is tried again where SQLite does not wait.
const AGAIN: Duration = Duration::from_millis(5);
/// Statements that are kept parsed.
const STATEMENTS: usize = 32;

/// Opens a file in a directory that nobody else can write to, and makes it if it is missing. The last part of the path is
/// no link.
///
/// # Errors
/// Returns an error if another user could change the file, or if it is not one that this program knows.
pub fn open(path: &Path, format: &Format) -> Result<Connection, OpenError> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(OpenError::foreign(path, "it is a directory"));
    };
    // SQLite refuses a path with a link in it (`SQLITE_OPEN_NOFOLLOW`), and files are checked without any.
    let directory = directories::resolved(directory);
    owned::check_directory(&directory)?;
    let path = &*directory.join(name);
    match owned::open(path)? {
        // SQLite would make a new one of it, and remove the log of the old one.
        Some(file) if file.metadata().at("look at", path)?.len() == 0 => {
            return Err(OpenError::foreign(path, "it is empty: it was cut off"));
        }
        Some(_) => {}
        None => {
            let image = in_memory(format)?.serialize("main").map_err(OpenError::Database)?.to_vec();
            // SQLite gives its log and its index the permissions of the database.
            make::whole(&directory, path, &image).at("make", path)?;
        }
    }
    for ending in ["-wal", "-shm"] {
        check(&with_ending(path, ending))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags).map_err(OpenError::Database)?;
    prepare(connection, path, format)
}

/// Makes a database in memory, which ends with the value.
///
/// # Errors
/// Returns the database's error.
pub fn in_memory(format: &Format) -> Result<Connection, OpenError> {
    let connection = Connection::open_in_memory().map_err(OpenError::Database)?;
    prepare(connection, Path::new(":memory:"), format)
}

/// Returns the path of a file that SQLite keeps next to a database.
#[must_use]
pub fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Turns the write-ahead log on. While another process does that for a new file, SQLite does not wait as for other locks.
fn write_ahead(connection: &Connection) -> rusqlite::Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < end =>
            {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

fn prepare(
    mut connection: Connection,
    path: &Path,
    format: &Format,
) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::of(path, error);
    connection.busy_timeout(PATIENCE).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Otherwise a statement whose plan might depend on a value, such as that of `LIMIT ?1`, is parsed and planned each time it runs.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
    distrust(&connection).map_err(failed)?;
    format.check(&connection, path)?;
    // Readers go on while one process writes. Each commit is on the disk when it returns: what was accepted must not
    // be lost with the machine.
    write_ahead(&connection).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(failed)?;
    format.migrate(&mut connection, path)?;
    Ok(connection)
}

/// Has a connection run nothing that the schema of its file says: a file that somebody gave us may have triggers, and views in
/// place of tables. No format of ours has either.
///
/// # Errors
/// Returns the database's error.
pub fn distrust(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    Ok(())
}

/// Checks that a file, if it is there, is the user's and that nobody else can write to it.
fn check(path: &Path) -> Result<(), OpenError> {
    Ok(owned::open(path).map(drop)?)
}

#[cfg(test)]
mod tests;
