//! The tables of a store, and how older ones become today's.

use pinfold_tasks::StoreError;

use crate::address::Address;
use crate::connection::{Connection, Mode};

/// Each step makes the next format of the one before it (`pinfold.store`). A step that was released never changes.
const STEPS: &[&str] = &[include_str!("schema-1.sql")];

/// The newest format that is known here.
const KNOWN: i64 = STEPS.len() as i64;

/// What there is in the database: its encoding, whether others may change what is in the schema, whether there is something
/// in it, and whether that is a store. A superuser counts as a member of every role, also of one that means harm. All is read from
/// tables, as of one moment: `to_regclass` also finds what was made since.
const LOOK: &str = "SELECT pg_catalog.current_setting('server_encoding'), \
     (SELECT r.rolsuper OR d.datdba = n.nspowner \
        OR NOT u.rolsuper AND pg_catalog.pg_has_role(n.nspowner, 'USAGE') \
      FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner, \
        pg_catalog.pg_database AS d, pg_catalog.pg_roles AS u \
      WHERE n.nspname = 'pinfold' AND d.datname = pg_catalog.current_database() \
        AND u.rolname = current_user), \
     (SELECT pg_catalog.count(*) FROM pg_catalog.pg_class AS c \
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'pinfold'), \
     EXISTS (SELECT FROM pg_catalog.pg_class AS c \
      JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'pinfold' AND c.relname = 'store')";

/// Checks that a store in a database has today's format, and makes one in an empty database.
///
/// # Errors
/// Returns an error for tables of another program or of a newer pinfold, a schema that others may change, and a user who may not
/// make tables.
pub(crate) fn prepare(connection: &mut Connection, address: &Address) -> Result<(), StoreError> {
    if look(connection, address)? == KNOWN {
        return Ok(());
    }
    connection.begin(Mode::Migrate)?;
    // Another process may have done it since.
    let format = look(connection, address)?;
    if format == 0 {
        connection.ask("CREATE SCHEMA IF NOT EXISTS pinfold")?;
    }
    for step in STEPS.iter().skip(usize::try_from(format).unwrap_or(STEPS.len())) {
        connection.ask(step)?;
    }
    connection.ask(&format!("UPDATE pinfold.store SET format = {KNOWN}"))?;
    // If the connection ends here, the next look says which of both it was.
    connection.commit()
}

/// Returns the format of the store in a database; 0 if it has no store.
fn look(connection: &mut Connection, address: &Address) -> Result<i64, StoreError> {
    let foreign = |reason: &str| {
        Err(StoreError::Foreign {
            store: format!("schema \"pinfold\" of database {address}"),
            reason: reason.to_owned(),
            hint: "name another database".to_owned(),
        })
    };
    let rows = connection.ask(LOOK)?;
    let [row] = &rows[..] else { return foreign("the server does not say what is in it") };
    let fields: Vec<Option<&str>> = row.iter().map(Option::as_deref).collect();
    let [encoding, is_trusted, Some(count), is_store] = fields[..] else {
        return foreign("the server does not say what is in it");
    };
    if encoding != Some("UTF8") {
        return foreign("its database has another encoding than UTF8");
    }
    match (is_trusted, count, is_store) {
        (Some("f"), ..) => foreign("it belongs to another user, who could change what is in it"),
        (None | Some("t"), "0", Some("f")) => Ok(0),
        (Some("t"), _, Some("t")) => format(connection, address),
        _ => foreign("another program made it"),
    }
}

fn format(connection: &mut Connection, address: &Address) -> Result<i64, StoreError> {
    let rows = connection.ask("SELECT format FROM pinfold.store")?;
    let format = match &rows[..] {
        [row] => row.first().cloned().flatten().and_then(|text| text.parse().ok()),
        _ => None,
    };
    match format {
        Some(format) => check(format, address).map(|()| format),
        None => Err(StoreError::Invalid {
            what: "format",
            reason: "its table \"store\" has not one row with a number".to_owned(),
        }),
    }
}

/// Checks that a format is not newer than what is known here, and not none at all.
///
/// # Errors
/// Returns an error if it is.
pub(crate) fn check(format: i64, address: &Address) -> Result<(), StoreError> {
    let store = address.to_string();
    match format {
        1.. if format <= KNOWN => Ok(()),
        1.. => Err(StoreError::Newer { store, found: format, known: KNOWN }),
        _ => Err(StoreError::Invalid { what: "format", reason: format!("it is {format}") }),
    }
}
