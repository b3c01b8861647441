//! An attempt that this worker holds.

use pinfold_host::Refusal;
use std::time::Duration;

use pinfold_tasks::{Claimed, Holder, TaskId, TaskSpec, Token};

use super::task::Offered;
use pinfold_content::Value;

/// An attempt that this worker holds.
pub(super) struct Held {
    pub(super) token: Token,
    pub(super) offered: Offered,
    pub(super) number: u32,
    pub(super) is_started: bool,
}

impl Held {
    /// Reads the answer to a claim of a task.
    pub(super) fn read(answer: &Value, offered: Offered, token: Token) -> Result<Self, Refusal> {
        let attempt = answer.get("attempt").ok_or("it has no attempt")?;
        let id = attempt.text_of("taskId").unwrap_or_default();
        if id.to_ascii_lowercase() != offered.id.to_string() {
            return Err("it is about another task".into());
        }
        let number = attempt
            .get("attemptN")
            .and_then(Value::as_count)
            .and_then(|number| u32::try_from(number).ok());
        // Each number before it is a branch to look for.
        let most = TaskSpec::MOST_STEPS as u32;
        let number = number
            .filter(|number| (1..=most).contains(number))
            .ok_or_else(|| format!("its attempt is not one of 1 to {most}"))?;
        Ok(Self { token, offered, number, is_started: false })
    }

    /// Returns what the worker works on, under the id that the task has here.
    pub(super) fn claimed(&self, task: TaskId, lasts: Duration) -> Claimed {
        let holder = Holder { task, attempt: self.number, token: self.token };
        let provenance = Some(self.offered.provenance());
        Claimed { holder, spec: self.offered.spec.clone(), lasts, provenance }
    }
}
