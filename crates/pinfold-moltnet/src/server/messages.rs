//! What attempts report while they run.

use pinfold_tasks::{NewMessage, Store, Transaction as _, message_value};

use super::attempts::AttemptId;
use super::caller::Caller;
use super::document::load;
use super::service::{Service, check};
use crate::problem::Problem;
use pinfold_content::{Value, times};

/// The most messages of one attempt. A worker must not be able to fill the disk.
const MOST: u64 = 100_000;
/// The most messages of one answer.
pub(super) const MOST_LISTED: u32 = 200;

impl<S: Store> Service<S> {
    /// Keeps messages, numbered from 0 without gaps, in the order of their times.
    pub(super) fn append(
        &self,
        caller: &Caller,
        id: AttemptId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("messages", body)?;
        let given = body.get("messages").and_then(Value::as_array).unwrap_or_default();
        let mut messages = given.iter().map(message).collect::<Result<Vec<_>, _>>()?;
        let count = messages.len() as u64;
        self.store.write(|transaction| {
            Self::active(transaction, caller, id, "write messages of")?;
            if !transaction.messages(id.task, id.number, MOST - count, 1)?.is_empty() {
                let what = format!("Attempt has {MOST} messages, which is the most that is kept");
                return Err(Problem::conflict(what));
            }
            let now = transaction.now();
            messages.sort_by_key(|message| message.at.unwrap_or(now));
            transaction.append(id.task, id.number, &messages)?;
            Ok(Value::object([("count", count.into())]))
        })
    }

    /// Returns messages with higher numbers than `after`.
    pub(super) fn messages(
        &self,
        caller: &Caller,
        id: AttemptId,
        after: Option<u64>,
        limit: u32,
    ) -> Result<Value, Problem> {
        self.store.read(|transaction| {
            let (record, _) = load(transaction, caller, id.task)?;
            if !(1..=record.task.attempts).contains(&id.number) {
                return Err(Problem::not_found("Task attempt not found"));
            }
            let from = after.map_or(0, |after| after.saturating_add(1));
            let messages = transaction.messages(id.task, id.number, from, limit)?;
            let values = messages.iter().map(|it| message_value(id.task, id.number, it));
            let values = values.collect::<Result<Vec<_>, _>>();
            values.map(Value::Array).map_err(|_| Problem::internal())
        })
    }
}

fn message(given: &Value) -> Result<NewMessage, Problem> {
    let payload = given.get("payload").unwrap_or(&Value::Null).to_string();
    if payload.len() > NewMessage::LONGEST {
        return Err(Problem::field("/messages", "a payload is too long"));
    }
    let at = given.text_of("timestamp").and_then(|text| times::read(&text));
    Ok(NewMessage { at, kind: given.text_of("kind").unwrap_or_default().into_owned(), payload })
}
