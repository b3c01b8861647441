//! Statements of the embedded store.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ToSql, params_from_iter};

use crate::store::{Row, SqlDatabase, StoreError, Value};

/// A transaction of the embedded store.
pub(super) struct SqliteDatabase<'a>(pub(super) rusqlite::Transaction<'a>);

impl SqlDatabase for SqliteDatabase<'_> {
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, StoreError> {
        let count = self.0.prepare_cached(statement)?.execute(params_from_iter(values))?;
        Ok(count as u64)
    }

    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let mut statement = self.0.prepare_cached(query)?;
        let columns = statement.column_count();
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values = (0..columns).map(|column| value(row.get_ref(column)?));
            rows.push(Row::new(values.collect::<Result<_, StoreError>>()?));
        }
        Ok(rows)
    }
}

fn value(found: ValueRef<'_>) -> Result<Value, StoreError> {
    match found {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => Ok(Value::Number(number)),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text);
            text.map(Value::from).map_err(|error| StoreError::invalid("text", error))
        }
        ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(StoreError::invalid("value", "it is neither a number nor a text"))
        }
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Number(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}
