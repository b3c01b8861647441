//! The tables of a file, and how older ones become today's.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::OpenError;

/// What the files of one kind hold.
#[derive(Debug)]
pub struct Format {
    /// What says in a file whose it is (`PRAGMA application_id`).
    pub application: i64,
    /// Each step makes the next format of the one before it (`PRAGMA user_version`). A step that was released never changes.
    pub steps: &'static [&'static str],
}

impl Format {
    /// Checks that a file is empty, or of a format that is known. Changes nothing.
    pub(crate) fn check(&self, connection: &Connection, path: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::of(path, error);
        let (application, format) = marks(connection).map_err(failed)?;
        let known = i64::try_from(self.steps.len()).unwrap_or(i64::MAX);
        if application == 0 {
            let count = "SELECT count(*) FROM sqlite_schema";
            let tables: i64 = connection.query_row(count, [], |row| row.get(0)).map_err(failed)?;
            if (tables, format) == (0, 0) {
                return Ok(());
            }
        }
        if application != self.application {
            return Err(OpenError::foreign(path, "another program made it"));
        }
        if format > known {
            return Err(OpenError::Newer { path: path.to_owned(), found: format, known });
        }
        Ok(())
    }

    /// Brings a file to today's format, in one transaction.
    pub(crate) fn migrate(
        &self,
        connection: &mut Connection,
        path: &Path,
    ) -> Result<(), OpenError> {
        let failed = |error| OpenError::of(path, error);
        let is_done =
            |format: i64| usize::try_from(format).is_ok_and(|format| format == self.steps.len());
        if is_done(marks(connection).map_err(failed)?.1) {
            return Ok(());
        }
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).map_err(failed)?;
        // Another process may have done it since.
        let (_, format) = marks(&transaction).map_err(failed)?;
        let done = usize::try_from(format).map_err(|error| OpenError::foreign(path, error))?;
        for step in self.steps.iter().skip(done) {
            transaction.execute_batch(step).map_err(failed)?;
        }
        transaction.pragma_update(None, "application_id", self.application).map_err(failed)?;
        let today = self.steps.len() as i64;
        transaction.pragma_update(None, "user_version", today).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
}

fn marks(connection: &Connection) -> Result<(i64, i64), rusqlite::Error> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((number("application_id")?, number("user_version")?))
}
