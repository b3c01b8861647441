//! Rows to values. What this program never wrote is an error, not a default.

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::Row;
use crate::attempt::{Attempt, Completion};
use crate::id::{TaskId, Token};
use crate::queue::Message;
use crate::record::Record;
use crate::store::{Note, StoreError};
use crate::task::{Task, Timeouts};
use pinfold_content::Timestamp;

/// The columns that [`record`] reads.
pub(super) const TASK: &str = "id, version, title, status, priority, attempts, max_attempts, allowance, losses, \
     waits_for, dispatch_timeout, running_timeout, added_at, queued_at, updated_at, ended_at, expires_at, \
     accepted, failure";
/// The columns that [`attempt`] reads.
pub(super) const ATTEMPT: &str = "number, status, worker, token, claimed_at, started_at, ended_at, lease_until, \
     ttl, output, usage, failure";
/// The columns that [`message`] reads.
pub(super) const MESSAGE: &str = "number, at, kind, payload";
/// How many columns [`TASK`] has.
const TASK_COLUMNS: usize = 19;

/// Returns columns of a table that a query gives this name.
pub(super) fn of(table: &str, columns: &str) -> String {
    let names: Vec<String> =
        columns.split(", ").map(|column| format!("{table}.{column}")).collect();
    names.join(", ")
}

/// Reads a row column by column, in their order.
struct Columns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> Columns<'a> {
    fn of(row: &'a Row) -> Self {
        Self::from(row, 0)
    }

    /// Reads it from a column on.
    fn from(row: &'a Row, next: usize) -> Self {
        Self { row, next }
    }

    fn step(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }

    fn maybe_text(&mut self) -> Result<Option<&'a str>, StoreError> {
        let column = self.step();
        self.row.text(column)
    }

    fn text(&mut self, what: &'static str) -> Result<&'a str, StoreError> {
        self.maybe_text()?.ok_or_else(|| StoreError::invalid(what, "it is missing"))
    }

    fn word<T: FromStr<Err: ToString>>(&mut self, what: &'static str) -> Result<T, StoreError> {
        let text = self.text(what)?;
        text.parse().map_err(|error: T::Err| StoreError::invalid(what, error.to_string()))
    }

    fn maybe<T: TryFrom<i64, Error: ToString>>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, StoreError> {
        let column = self.step();
        let number = self.row.number(column)?.map(T::try_from).transpose();
        number.map_err(|error| StoreError::invalid(what, error.to_string()))
    }

    fn number<T: TryFrom<i64, Error: ToString>>(
        &mut self,
        what: &'static str,
    ) -> Result<T, StoreError> {
        self.maybe(what)?.ok_or_else(|| StoreError::invalid(what, "it is missing"))
    }

    fn time(&mut self, what: &'static str) -> Result<Timestamp, StoreError> {
        self.number(what).map(Timestamp::from_millis)
    }

    fn maybe_time(&mut self, what: &'static str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.maybe(what)?.map(Timestamp::from_millis))
    }

    fn duration(&mut self, what: &'static str) -> Result<Duration, StoreError> {
        self.number(what).map(Duration::from_millis)
    }

    fn json<T: DeserializeOwned>(&mut self, what: &'static str) -> Result<Option<T>, StoreError> {
        let value = self.maybe_text()?.map(serde_json::from_str).transpose();
        value.map_err(|error| StoreError::invalid(what, error))
    }
}

/// Reads a task without its attempt.
pub(super) fn record(row: &Row) -> Result<Record, StoreError> {
    let mut columns = Columns::of(row);
    let id = columns.word("id")?;
    let version = columns.number("version")?;
    let task = Task {
        id,
        title: columns.text("title")?.to_owned(),
        status: columns.word("status")?,
        priority: columns.number("priority")?,
        attempts: columns.number("attempts")?,
        max_attempts: columns.number("max_attempts")?,
        allowance: columns.number("allowance")?,
        losses: columns.number("losses")?,
        waits_for: columns.number("waits_for")?,
        timeouts: Timeouts {
            dispatch: columns.duration("dispatch_timeout")?,
            running: columns.duration("running_timeout")?,
        },
        added_at: columns.time("added_at")?,
        queued_at: columns.time("queued_at")?,
        updated_at: columns.time("updated_at")?,
        ended_at: columns.maybe_time("ended_at")?,
        expires_at: columns.maybe_time("expires_at")?,
        accepted: columns.maybe("accepted")?,
        failure: columns.json("failure")?,
    };
    Ok(Record { version, ..Record::new(task) })
}

/// Reads a task and its latest attempt, whose columns come after the task's. They are empty for a task without one.
pub(super) fn record_with_attempt(row: &Row) -> Result<Record, StoreError> {
    let mut read = record(row)?;
    if row.number(TASK_COLUMNS)?.is_some() {
        read.attempt = Some(attempt_from(Columns::from(row, TASK_COLUMNS))?);
    }
    Ok(read)
}

/// Reads an attempt.
pub(super) fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    attempt_from(Columns::of(row))
}

fn attempt_from(mut columns: Columns<'_>) -> Result<Attempt, StoreError> {
    let mut attempt = Attempt {
        number: columns.number("number")?,
        status: columns.word("status")?,
        worker: columns.text("worker")?.to_owned(),
        token: Token::from_digits(columns.text("token")?)
            .ok_or_else(|| StoreError::invalid("attempt", "its token is not one"))?,
        claimed_at: columns.time("claimed_at")?,
        started_at: columns.maybe_time("started_at")?,
        ended_at: columns.maybe_time("ended_at")?,
        lease_until: columns.time("lease_until")?,
        ttl: columns.duration("ttl")?,
        completion: None,
        failure: None,
    };
    let output = columns.maybe_text()?.map(str::to_owned);
    attempt.completion = match (output, columns.json("usage")?) {
        (Some(output), Some(usage)) => Some(Completion { output, usage }),
        (None, None) => None,
        _ => return Err(StoreError::invalid("attempt", "it has half of a result")),
    };
    attempt.failure = columns.json("failure")?;
    Ok(attempt)
}

/// Reads a message.
pub(super) fn message(row: &Row) -> Result<Message, StoreError> {
    let mut columns = Columns::of(row);
    Ok(Message {
        number: columns.number("number")?,
        at: columns.time("at")?,
        kind: columns.text("kind")?.to_owned(),
        payload: columns.text("payload")?.to_owned(),
    })
}

/// Reads a note.
pub(super) fn note(row: &Row) -> Result<Note, StoreError> {
    let mut columns = Columns::of(row);
    Ok(Note { key: columns.text("key")?.to_owned(), content: columns.text("content")?.to_owned() })
}

/// Reads the id of a task and how many attempts it had.
pub(super) fn id_and_attempts(row: &Row) -> Result<(TaskId, u32), StoreError> {
    let mut columns = Columns::of(row);
    Ok((columns.word("id")?, columns.number("attempts")?))
}

/// Reads the id that is a row's only column.
pub(super) fn id(row: &Row) -> Result<TaskId, StoreError> {
    Columns::of(row).word("id")
}
