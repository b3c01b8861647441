//! What really happened, noted apart from the store.

use std::collections::HashMap;

use pinfold_tasks::{Completion, Holder, TaskId, Token};

use crate::events::Life;

/// What is true, whatever the store says.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The attempt that was accepted, with its result.
    pub(crate) accepted: HashMap<TaskId, (u32, Completion)>,
    /// Whose each attempt is.
    holders: HashMap<(TaskId, u32), Token>,
    /// The sandboxes that run.
    sandboxes: HashMap<TaskId, (Life, u32)>,
    pub(crate) cancelled: HashMap<TaskId, u32>,
    pub(crate) retried: HashMap<TaskId, u32>,
    /// Sandboxes that ran at the same time as another one of their task.
    pub(crate) overlaps: u64,
    pub(crate) started: u64,
}

impl Ledger {
    /// Notes that the queue gave an attempt to a worker.
    pub(crate) fn claimed(&mut self, holder: &Holder) {
        let known = self.holders.insert((holder.task, holder.attempt), holder.token);
        assert!(
            known.is_none_or(|token| token == holder.token),
            "attempt {} at {} was given to two workers",
            holder.attempt,
            holder.task
        );
    }

    /// Notes that the queue accepted a result for the first time.
    pub(crate) fn completed(&mut self, holder: &Holder, completion: &Completion) {
        let accepted = (holder.attempt, completion.clone());
        let before = self.accepted.insert(holder.task, accepted);
        assert!(before.is_none(), "{} was accepted twice", holder.task);
    }

    /// Checks that the queue accepted a result before.
    pub(crate) fn was_completed(&self, holder: &Holder, completion: &Completion) {
        let accepted = (holder.attempt, completion.clone());
        assert_eq!(self.accepted.get(&holder.task), Some(&accepted), "it was never accepted");
    }

    /// Notes that a sandbox starts.
    pub(crate) fn starts(&mut self, holder: &Holder, life: Life) {
        self.started += 1;
        let other = self.sandboxes.insert(holder.task, (life, holder.attempt));
        self.overlaps += u64::from(other.is_some());
    }

    /// Notes that a sandbox is gone.
    pub(crate) fn gone(&mut self, task: TaskId, attempt: u32) {
        if self.sandboxes.get(&task).is_some_and(|(_, running)| *running == attempt) {
            self.sandboxes.remove(&task);
        }
    }

    /// Notes that a worker died with all that it had started.
    pub(crate) fn died(&mut self, life: Life) {
        self.sandboxes.retain(|_, (owner, _)| *owner != life);
    }
}
