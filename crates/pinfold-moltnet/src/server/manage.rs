//! Changing, cancelling and deleting tasks.

use pinfold_tasks::{Store, TaskId, Transaction as _};

use super::caller::Caller;
use super::document::{change, changing, load, save};
use super::render;
use super::service::{Service, check};
use crate::problem::Problem;
use pinfold_content::{Uuid, Value};

impl<S: Store> Service<S> {
    /// Changes the title and the tags of a task.
    pub(super) fn change(
        &self,
        caller: &Caller,
        id: TaskId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("change", body)?;
        self.store.write(|transaction| {
            let (record, document) = load(transaction, caller, id)?;
            let now = changing(transaction, id, &document)?;
            let mut changed = now.as_object().cloned().unwrap_or_default();
            for name in ["title", "tags"] {
                if let Some(value) = body.get(name) {
                    changed = changed.with(name, value.clone());
                }
            }
            change(transaction, id, &changed.into())?;
            render::record(transaction, &record, &document)
        })
    }

    /// Cancels a task at once. Its worker learns of it by its next heartbeat.
    pub(super) fn cancel(
        &self,
        caller: &Caller,
        id: TaskId,
        body: &Value,
    ) -> Result<Value, Problem> {
        check("cancel", body)?;
        let reason = body.text_of("reason").unwrap_or_default();
        self.store.write(|transaction| {
            let (mut record, document) = load(transaction, caller, id)?;
            let now = transaction.now();
            let cancelled = record.cancel(&reason, now);
            cancelled.map_err(|refused| Problem::refused(&refused, "cancel"))?;
            let kept = changing(transaction, id, &document)?
                .as_object()
                .cloned()
                .unwrap_or_default()
                .with("cancelledByAgentId", caller.agent.id.as_str());
            change(transaction, id, &kept.into())?;
            save(transaction, &record)?;
            render::record(transaction, &record, &document)
        })
    }

    /// Deletes tasks that have ended, and with `force` others too. What cannot be deleted, or is not the caller's to
    /// see, is skipped.
    pub(super) fn delete(&self, caller: &Caller, body: &Value) -> Result<Value, Problem> {
        check("delete", body)?;
        let ids: Vec<TaskId> = body
            .get("ids")
            .and_then(Value::as_array)
            .unwrap_or_default()
            .iter()
            .filter_map(Value::as_text)
            .filter_map(|id| id.to_ascii_lowercase().parse().ok())
            .collect();
        let is_forced = body.get("force").and_then(Value::as_bool) == Some(true);
        let mut deleted = Vec::new();
        for id in &ids {
            let is_deleted = self.store.write(|transaction| {
                let (mut record, _) = match load(transaction, caller, *id) {
                    Ok(found) => found,
                    Err(problem) if problem == Problem::not_found("Task not found") => {
                        return Ok(false);
                    }
                    Err(problem) => return Err(problem),
                };
                let now = transaction.now();
                record.pass_time(now);
                if !record.task.status.is_terminal() {
                    if !is_forced {
                        return Ok(false);
                    }
                    let reason = body.text_of("reason").unwrap_or("deleted".into());
                    let cancelled = record.cancel(&reason, now);
                    cancelled.map_err(|refused| Problem::refused(&refused, "delete"))?;
                    save(transaction, &record)?;
                }
                for waiting in transaction.waiting_for(*id)? {
                    let waiting = transaction.load(waiting)?;
                    if waiting.is_some_and(|waiting| !waiting.task.status.is_terminal()) {
                        return Ok(false);
                    }
                }
                transaction.remove(*id)?;
                Ok::<_, Problem>(true)
            })?;
            if is_deleted {
                self.remove_files(*id);
                deleted.push(*id);
            }
        }
        let operation = Uuid::generate().map_err(|_| Problem::internal())?;
        let skipped = (ids.len() - deleted.len()) as u64;
        Ok(Value::object([
            ("accepted", (deleted.len() as u64).into()),
            ("skipped", skipped.into()),
            ("operationId", operation.to_string().into()),
            ("status", "completed".into()),
            ("workflowId", operation.to_string().into()),
        ]))
    }
}
