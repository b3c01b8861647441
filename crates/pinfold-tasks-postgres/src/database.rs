//! Statements of the queue, executed by a server.

use std::error::Error;

use pinfold_tasks::{Row, SqlDatabase, StoreError, Value};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use crate::connection::Connection;

impl SqlDatabase for Connection {
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, StoreError> {
        let prepared = self.prepare(statement)?;
        let parameters: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
        self.wait(async |client| client.execute_raw(&prepared, &parameters).await)
    }

    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let prepared = self.prepare(query)?;
        let parameters: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
        let parameters: Vec<&(dyn ToSql + Sync)> =
            parameters.iter().map(|each| each as &(dyn ToSql + Sync)).collect();
        let rows = self.wait(async |client| client.query(&prepared, &parameters).await)?;
        rows.iter().map(row).collect()
    }
}

fn row(found: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let invalid = |reason: String| StoreError::Invalid { what: "row", reason };
    let value = |(column, its): (usize, &tokio_postgres::Column)| {
        match *its.type_() {
            Type::INT8 => found.try_get::<_, Option<i64>>(column).map(Value::from),
            Type::TEXT => found.try_get::<_, Option<String>>(column).map(Value::from),
            _ => return Err(invalid("a value is neither a number nor a text".to_owned())),
        }
        .map_err(|error| invalid(crate::error::in_words(&error)))
    };
    found.columns().iter().enumerate().map(value).collect::<Result<_, _>>().map(Row::new)
}

/// A parameter of a statement.
#[derive(Debug)]
struct Parameter<'a>(&'a Value);

impl ToSql for Parameter<'_> {
    fn to_sql(
        &self,
        its: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match (self.0, its) {
            (Value::Null, _) => Ok(IsNull::Yes),
            (Value::Number(number), &Type::INT8) => number.to_sql(its, out),
            (Value::Text(text), &Type::TEXT) => text.as_str().to_sql(its, out),
            // Statements and tables are this program's own.
            _ => Err("the server takes another type for a parameter".into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(
        &self,
        its: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.to_sql(its, out)
    }
}
