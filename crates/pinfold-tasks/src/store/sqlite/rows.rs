//! Rows to values. What this program never wrote is an error, not a default.

use std::str::FromStr;
use std::time::Duration;

use rusqlite::Row;
use serde::de::DeserializeOwned;

use crate::attempt::{Attempt, Completion};
use crate::id::{TaskId, Token};
use crate::queue::Message;
use crate::record::Record;
use crate::store::StoreError;
use crate::task::{Task, Timeouts};
use crate::time::Timestamp;

/// The columns that [`task`] reads.
pub(super) const TASK: &str = "id, version, title, status, priority, attempts, max_attempts, allowance, losses, \
     waits_for, dispatch_timeout, running_timeout, added_at, queued_at, updated_at, ended_at, expires_at, \
     accepted, failure";
/// The columns that [`attempt`] reads.
pub(super) const ATTEMPT: &str = "number, status, worker, token, claimed_at, started_at, ended_at, lease_until, \
     ttl, output, usage, failure";

/// Reads a task without its attempt.
pub(super) fn record(row: &Row<'_>) -> Result<Record, StoreError> {
    let task = Task {
        id: word(row, "id")?,
        title: row.get("title")?,
        status: word(row, "status")?,
        priority: number(row, "priority")?,
        attempts: number(row, "attempts")?,
        max_attempts: number(row, "max_attempts")?,
        allowance: number(row, "allowance")?,
        losses: number(row, "losses")?,
        waits_for: number(row, "waits_for")?,
        timeouts: Timeouts {
            dispatch: duration(row, "dispatch_timeout")?,
            running: duration(row, "running_timeout")?,
        },
        added_at: time(row, "added_at")?,
        queued_at: time(row, "queued_at")?,
        updated_at: time(row, "updated_at")?,
        ended_at: maybe_time(row, "ended_at")?,
        expires_at: maybe_time(row, "expires_at")?,
        accepted: maybe(row, "accepted", u32::try_from)?,
        failure: json(row, "failure")?,
    };
    Ok(Record { version: number(row, "version")?, ..Record::new(task) })
}

/// Reads an attempt.
pub(super) fn attempt(row: &Row<'_>) -> Result<Attempt, StoreError> {
    let token: String = row.get("token")?;
    let output: Option<String> = row.get("output")?;
    let completion = match (output, json(row, "usage")?) {
        (Some(output), Some(usage)) => Some(Completion { output, usage }),
        (None, None) => None,
        _ => return Err(StoreError::invalid("attempt", "it has half of a result")),
    };
    Ok(Attempt {
        number: number(row, "number")?,
        status: word(row, "status")?,
        worker: row.get("worker")?,
        token: Token::from_digits(&token)
            .ok_or_else(|| StoreError::invalid("attempt", "its token is not one"))?,
        claimed_at: time(row, "claimed_at")?,
        started_at: maybe_time(row, "started_at")?,
        ended_at: maybe_time(row, "ended_at")?,
        lease_until: time(row, "lease_until")?,
        ttl: duration(row, "ttl")?,
        completion,
        failure: json(row, "failure")?,
    })
}

/// Reads a message.
pub(super) fn message(row: &Row<'_>) -> Result<Message, StoreError> {
    Ok(Message {
        number: number(row, "number")?,
        at: time(row, "at")?,
        kind: row.get("kind")?,
        payload: row.get("payload")?,
    })
}

/// Reads the id that is a row's only column.
pub(super) fn id(row: &Row<'_>) -> Result<TaskId, StoreError> {
    let text: String = row.get(0)?;
    text.parse().map_err(|error| StoreError::invalid("id", error))
}

fn word<T: FromStr<Err: ToString>>(row: &Row<'_>, column: &'static str) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    text.parse().map_err(|error: T::Err| StoreError::invalid(column, error.to_string()))
}

fn number<T: TryFrom<i64, Error: ToString>>(
    row: &Row<'_>,
    column: &'static str,
) -> Result<T, StoreError> {
    let number: i64 = row.get(column)?;
    T::try_from(number).map_err(|error| StoreError::invalid(column, error.to_string()))
}

fn maybe<T, E: ToString>(
    row: &Row<'_>,
    column: &'static str,
    convert: impl Fn(i64) -> Result<T, E>,
) -> Result<Option<T>, StoreError> {
    let number: Option<i64> = row.get(column)?;
    let converted = number.map(convert).transpose();
    converted.map_err(|error| StoreError::invalid(column, error.to_string()))
}

fn time(row: &Row<'_>, column: &'static str) -> Result<Timestamp, StoreError> {
    number(row, column).map(Timestamp::from_millis)
}

fn maybe_time(row: &Row<'_>, column: &'static str) -> Result<Option<Timestamp>, StoreError> {
    maybe(row, column, |number| u64::try_from(number).map(Timestamp::from_millis))
}

fn duration(row: &Row<'_>, column: &'static str) -> Result<Duration, StoreError> {
    number(row, column).map(Duration::from_millis)
}

fn json<T: DeserializeOwned>(row: &Row<'_>, column: &'static str) -> Result<Option<T>, StoreError> {
    let text: Option<String> = row.get(column)?;
    let value = text.map(|text| serde_json::from_str(&text)).transpose();
    value.map_err(|error| StoreError::invalid(column, error))
}
