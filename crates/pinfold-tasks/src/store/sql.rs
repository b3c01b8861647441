//! Stores that are SQL databases: one set of statements for all of them. A database executes statements and excludes
//! other transactions; what the statements are is written once.

mod rows;
mod transaction;

use super::StoreError;

pub use transaction::SqlTransaction;

/// A database within a transaction. Parameters of statements are `?1`, `?2` and so on, as SQLite numbers them. Numbers have
/// 64 bits, and texts are compared byte by byte.
pub trait SqlDatabase {
    /// Executes a statement, and returns how many rows it changed.
    ///
    /// # Errors
    /// Returns the database's error.
    fn execute(&mut self, statement: &str, values: &[Value]) -> Result<u64, StoreError>;

    /// Executes statements in their order, and returns how many rows each changed. A server gets all of them before it answers
    /// the first one.
    ///
    /// # Errors
    /// Returns the database's first error.
    fn execute_all(&mut self, statements: &[(&str, &[Value])]) -> Result<Vec<u64>, StoreError> {
        statements.iter().map(|(statement, values)| self.execute(statement, values)).collect()
    }

    /// Returns the rows of a query.
    ///
    /// # Errors
    /// Returns the database's error, or [`StoreError::Invalid`] for a value that is neither a number nor a text.
    fn query(&mut self, query: &str, values: &[Value]) -> Result<Vec<Row>, StoreError>;
}

/// A value in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// A whole number.
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for Value {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of an answer, in the order of the columns that were asked for.
#[derive(Clone, Debug)]
pub struct Row(Vec<Value>);

impl Row {
    /// Returns a row of these values.
    #[must_use]
    pub fn new(values: Vec<Value>) -> Self {
        Self(values)
    }

    /// Returns the number in a column, or none for `NULL`.
    ///
    /// # Errors
    /// Returns an error for a text, or if there is no such column.
    pub fn number(&self, column: usize) -> Result<Option<i64>, StoreError> {
        match self.0.get(column) {
            Some(Value::Number(number)) => Ok(Some(*number)),
            Some(Value::Null) => Ok(None),
            Some(Value::Text(_)) | None => Err(StoreError::invalid("row", "a number is missing")),
        }
    }

    /// Returns the text in a column, or none for `NULL`.
    ///
    /// # Errors
    /// Returns an error for a number, or if there is no such column.
    pub fn text(&self, column: usize) -> Result<Option<&str>, StoreError> {
        match self.0.get(column) {
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(Value::Null) => Ok(None),
            Some(Value::Number(_)) | None => Err(StoreError::invalid("row", "a text is missing")),
        }
    }
}
