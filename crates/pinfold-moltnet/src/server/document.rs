//! What a task is by MoltNet's API and never changes, and what of it changes apart from its state.

use std::borrow::Cow;

use pinfold_tasks::{Note, Record, Task, TaskId, Transaction};

use crate::problem::Problem;
use crate::server::caller::Caller;
use pinfold_content::{Value, read};

/// The notes of the server.
pub(crate) mod notes {
    /// What of a task changes: title, tags, and who cancelled it.
    pub(crate) const TASK: &str = "task";
    /// What belongs to an attempt: the claim's and the result's fields that the queue has no place for.
    pub(crate) const ATTEMPT: &str = "attempt";
    /// Requests with an idempotency key.
    pub(crate) const REQUEST: &str = "request";
    /// Manifests of executors.
    pub(crate) const MANIFEST: &str = "manifest";
    /// Slots of runtimes.
    pub(crate) const SLOT: &str = "slot";
    /// Sessions of runtimes.
    pub(crate) const SESSION: &str = "session";
}

/// What a task is. The store keeps it as what the task asks for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Document(pub(crate) Value);

impl Document {
    pub(crate) fn read(text: &str) -> Result<Self, Problem> {
        // The server wrote it.
        read(text).map(Self).map_err(|_| Problem::internal())
    }

    pub(crate) fn field(&self, name: &str) -> Value {
        self.0.get(name).cloned().unwrap_or(Value::Null)
    }

    pub(crate) fn text(&self, name: &str) -> Cow<'_, str> {
        self.0.text_of(name).unwrap_or_default()
    }

    pub(crate) fn condition(&self) -> Option<&Value> {
        self.0.given("claimCondition")
    }

    /// Returns whether a worker with this profile may have the task.
    pub(crate) fn allows_profile(&self, profile: Option<&str>) -> bool {
        let allowed = self.0.get("allowedProfiles").and_then(Value::as_array).unwrap_or_default();
        let is_it = |it: &Value| it.text_of("profileId").is_some_and(|id| Some(&*id) == profile);
        allowed.is_empty() || allowed.iter().any(is_it)
    }
}

/// Returns a task that the caller may see.
pub(crate) fn load(
    transaction: &mut impl Transaction,
    caller: &Caller,
    id: TaskId,
) -> Result<(Record, Document), Problem> {
    let missing = || Problem::not_found("Task not found");
    let record = transaction.load(id)?.ok_or_else(missing)?;
    let document = Document::read(&transaction.spec(id)?.ok_or_else(missing)?)?;
    if document.text("teamId") != caller.agent.team {
        return Err(missing());
    }
    Ok((record, document))
}

/// Returns what of a task changes.
pub(crate) fn changing(
    transaction: &mut impl Transaction,
    task: TaskId,
    document: &Document,
) -> Result<Value, Problem> {
    match transaction.note(notes::TASK, &task.to_string())? {
        Some(text) => read(&text).map_err(|_| Problem::internal()),
        None => Ok(Value::object([
            ("title", document.field("title")),
            ("tags", document.field("tags")),
            ("cancelledByAgentId", Value::Null),
        ])),
    }
}

/// Keeps what of a task changes.
pub(crate) fn change(
    transaction: &mut impl Transaction,
    task: TaskId,
    changing: &Value,
) -> Result<(), Problem> {
    let note = Note { key: task.to_string(), content: changing.to_string() };
    Ok(transaction.set_note(notes::TASK, &note, Some(task))?)
}

/// Saves a task, and queues those that waited for its end.
pub(crate) fn save(transaction: &mut impl Transaction, record: &Record) -> Result<(), Problem> {
    transaction.save(record)?;
    if !record.task.status.is_terminal() {
        return Ok(());
    }
    let now = transaction.now();
    for id in transaction.waiting_for(record.task.id)? {
        let (Some(mut waiting), Some(text)) = (transaction.load(id)?, transaction.spec(id)?) else {
            continue;
        };
        let is_waiting = waiting.task.waits_for > 0 && !waiting.task.status.is_terminal();
        if is_waiting && is_ready(transaction, &Document::read(&text)?)? {
            waiting.dependency_completed(now);
            transaction.save(&waiting)?;
        }
    }
    Ok(())
}

/// Returns whether the condition of a task holds.
pub(crate) fn is_ready(
    transaction: &mut impl Transaction,
    document: &Document,
) -> Result<bool, Problem> {
    let Some(condition) = document.condition() else { return Ok(true) };
    let mut find = |id: TaskId| -> Result<Option<Task>, Problem> {
        Ok(transaction.load(id)?.map(|record| record.task))
    };
    crate::condition::holds(condition, &mut find)
}
