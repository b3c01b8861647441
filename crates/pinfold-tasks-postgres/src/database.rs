//! Statements of the queue, executed by a server.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use pinfold_tasks::{Row, SqlDatabase, StoreError, Value};
use tokio_postgres::Client;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use crate::connection::{Connection, Known};

impl SqlDatabase for Connection {
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, StoreError> {
        let known = self.know(statement)?;
        let parameters = Parameter::all(values);
        self.wait(async |client| execute(client, &known, &parameters).await)
    }

    /// Sends all of them at once. After one that fails the server refuses the others.
    fn execute_all(&mut self, statements: &[(&str, &[Value])]) -> Result<Vec<u64>, StoreError> {
        let mut all = Vec::new();
        for (statement, values) in statements {
            all.push((self.know(statement)?, Parameter::all(values)));
        }
        self.wait(async |client| {
            let each = all.iter().map(|(known, parameters)| execute(client, known, parameters));
            in_order(each.collect()).await.into_iter().collect()
        })
    }

    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let known = self.know(query)?;
        let parameters = Parameter::all(values);
        let rows = self.wait(async |client| match &known {
            Known::Prepared(prepared) => {
                client.query(prepared, &Parameter::values(&parameters)).await
            }
            Known::Text(text) => client.query_typed(text, &Parameter::typed(&parameters)).await,
        })?;
        rows.iter().map(row).collect()
    }
}

async fn execute(
    client: &Client,
    known: &Known,
    parameters: &[Parameter<'_>],
) -> Result<u64, tokio_postgres::Error> {
    match known {
        Known::Prepared(prepared) => client.execute(prepared, &Parameter::values(parameters)).await,
        Known::Text(text) => client.execute_typed(text, &Parameter::typed(parameters)).await,
    }
}

/// Waits for all of these. They are polled in their order, so what they send is in their order.
async fn in_order<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        for (future, done) in &mut waiting {
            if done.is_none()
                && let Poll::Ready(value) = Pin::as_mut(future).poll(context)
            {
                *done = Some(value);
            }
        }
        let all_done = waiting.iter().all(|(_, done)| done.is_some());
        if all_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
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

impl<'a> Parameter<'a> {
    fn all(values: &'a [Value]) -> Vec<Self> {
        values.iter().map(Parameter).collect()
    }

    fn values(all: &'a [Self]) -> Vec<&'a (dyn ToSql + Sync)> {
        all.iter().map(|each| each as &(dyn ToSql + Sync)).collect()
    }

    fn typed(all: &'a [Self]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
        all.iter().map(|each| (each as &(dyn ToSql + Sync), each.kind())).collect()
    }

    fn kind(&self) -> Type {
        match self.0 {
            Value::Number(_) => Type::INT8,
            Value::Text(_) => Type::TEXT,
            // The server finds it out from the statement.
            Value::Null => Type::UNKNOWN,
        }
    }
}

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
