//! The tables of the embedded store, and how older ones become today's.

use std::path::Path;

use pinfold_policy::path::Escaped;
use rusqlite::{Connection, TransactionBehavior};

use crate::store::StoreError;

/// What says in a file of SQLite whose it is (`PRAGMA application_id`): "pfQ1".
const APPLICATION: i64 = 0x7066_5131;

/// Each step makes the next format of the one before it (`PRAGMA user_version`). A step that was released never
/// changes.
const STEPS: &[&str] =
    &[include_str!("schema-1.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];

/// Why a file is not used.
pub(super) enum Problem {
    Store(StoreError),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for Problem {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error)
    }
}

/// Checks that a file is empty, or a store of a format that is known. Changes nothing.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), Problem> {
    let (application, format) = marks(connection)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    match application {
        0 => {
            let count = "SELECT count(*) FROM sqlite_schema";
            let tables: i64 = connection.query_row(count, [], |row| row.get(0))?;
            match (tables, format) {
                (0, 0) => Ok(()),
                _ => Err(Problem::Store(StoreError::foreign(path, "another program made it"))),
            }
        }
        APPLICATION if format > known => Err(Problem::Store(StoreError::Newer {
            store: Escaped(path).to_string(),
            found: format,
            known,
        })),
        APPLICATION => Ok(()),
        _ => Err(Problem::Store(StoreError::foreign(path, "another program made it"))),
    }
}

/// Brings a store to today's format, in one transaction.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let is_done = |format: i64| usize::try_from(format).is_ok_and(|format| format == STEPS.len());
    if is_done(marks(connection)?.1) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it since.
    let (_, format) = marks(&transaction)?;
    let done = usize::try_from(format).map_err(|error| StoreError::foreign(path, error))?;
    for step in STEPS.iter().skip(done) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", STEPS.len() as i64)?;
    Ok(transaction.commit()?)
}

fn marks(connection: &Connection) -> Result<(i64, i64), rusqlite::Error> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((number("application_id")?, number("user_version")?))
}
