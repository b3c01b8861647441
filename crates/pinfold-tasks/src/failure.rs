//! Why attempts fail, and whether they are worth repeating.

use serde::{Deserialize, Serialize};

use crate::text::beginning;

/// The codes of failures that the queue itself gives, and those of a worker that decide about a repetition.
pub mod code {
    /// No first heartbeat came in time.
    pub const DISPATCH_EXPIRED: &str = "dispatch_expired";
    /// Heartbeats stopped.
    pub const LEASE_EXPIRED: &str = "lease_expired";
    /// The attempt took longer than the task allows, with heartbeats.
    pub const RUNNING_TOTAL_EXCEEDED: &str = "running_total_exceeded";
    /// The worker gave the task back.
    pub const WORKER_ABORTED: &str = "worker_aborted";
    /// The user cancelled the task.
    pub const TASK_CANCELLED: &str = "task_cancelled";
    /// The task was not begun before the time that it allows.
    pub const TASK_EXPIRED: &str = "task_expired";
    /// The workers of several attempts in a row were lost.
    pub const QUARANTINED: &str = "quarantined";
    /// What the task asks for cannot be read.
    pub const INVALID_TASK: &str = "invalid_task";
    /// The worker's user has not allowed what the task asks for.
    pub const NOT_ALLOWED: &str = "not_allowed";
    /// The commands that verify the result did not pass.
    pub const VERIFICATION_FAILED: &str = "verification_failed";
}

/// Codes whose cause may be gone at the next attempt (MoltNet's list).
const TRANSIENT: [&str; 8] = [
    "checkpoint_upload_failed",
    "complete_call_failed",
    "daemon_abort",
    code::DISPATCH_EXPIRED,
    code::LEASE_EXPIRED,
    "llm_api_error",
    "runtime_session_checkpoint_failed",
    "session_prompt_failed",
];
/// Codes whose cause is in the task or in the settings (MoltNet's list).
const LASTING: [&str; 14] = [
    code::NOT_ALLOWED,
    "bad_api_key",
    "executor_threw",
    "invalid_api_key",
    "invalid_model",
    "max_turns_exceeded",
    "output_rejected_by_server",
    "output_validation_failed",
    "submit_output_missing",
    "producer_context_missing",
    "running_max_bash_timeouts_exceeded",
    "running_max_turns_exceeded",
    code::TASK_CANCELLED,
    "unknown_task_type",
];
/// Words in messages of other codes that mean the same.
const TRANSIENT_WORDS: [&str; 9] =
    ["429", "502", "503", "504", "timeout", "timed out", "econn", "connection re", "rate limit"];

/// Why an attempt or a task ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A word for programs, such as `lease_expired`.
    pub code: String,
    /// A sentence for people.
    pub message: String,
    /// Whether another attempt may succeed; none if the worker does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
}

/// What becomes of a task after an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// It is queued again.
    Again,
    /// It fails.
    Final,
}

impl Failure {
    /// The longest code and message that a worker may report, in bytes.
    pub const LONGEST_CODE: usize = 64;
    /// The longest message that is kept, in bytes. What is longer is cut.
    pub const LONGEST_MESSAGE: usize = 16 << 10;

    /// Returns a failure of which the reporter does not know whether a repetition helps.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        let mut failure = Self { code: code.to_owned(), message: message.into(), retryable: None };
        failure.bound();
        failure
    }

    /// Cuts what is longer than what is kept, at a character.
    pub(crate) fn bound(&mut self) {
        let cut = |text: &mut String, most| text.truncate(beginning(text, most).len());
        cut(&mut self.code, Self::LONGEST_CODE);
        cut(&mut self.message, Self::LONGEST_MESSAGE);
    }

    /// Returns the failure with a worker's own judgement of whether a repetition may help: by its code, else by
    /// its message, and no if neither says so.
    #[must_use]
    pub fn judged(mut self) -> Self {
        let is_transient = || {
            let message = self.message.to_lowercase();
            TRANSIENT_WORDS.iter().any(|word| message.contains(word))
        };
        let code = self.code.as_str();
        let retryable = TRANSIENT.contains(&code) || !LASTING.contains(&code) && is_transient();
        self.retryable = Some(self.retryable.unwrap_or(retryable));
        self
    }

    /// Returns what becomes of the task. A failure that nobody judged is repeated, as in MoltNet's API of June 2026.
    pub(crate) fn repetition(&self) -> Repetition {
        match self.retryable {
            Some(false) => Repetition::Final,
            Some(true) | None => Repetition::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, Repetition, code};

    fn judged(code: &str, message: &str) -> Option<bool> {
        Failure::new(code, message).judged().retryable
    }

    #[test]
    fn codes_decide_before_messages() {
        assert_eq!(judged("llm_api_error", ""), Some(true));
        assert_eq!(judged("invalid_model", "503 timeout"), Some(false));
        assert_eq!(judged("other", "HTTP 503"), Some(true));
        assert_eq!(judged("other", "path escapes workspace"), Some(false));
    }

    #[test]
    fn judgement_of_the_reporter_stands() {
        let failure = Failure { retryable: Some(true), ..Failure::new("invalid_model", "") };
        assert_eq!(failure.judged().retryable, Some(true));
    }

    #[test]
    fn failure_without_judgement_is_repeated() {
        assert_eq!(Failure::new(code::VERIFICATION_FAILED, "").repetition(), Repetition::Again);
    }

    #[test]
    fn long_message_is_cut_at_a_character() {
        let failure = Failure::new("x", "ä".repeat(Failure::LONGEST_MESSAGE));
        assert_eq!(failure.message.len(), Failure::LONGEST_MESSAGE);
    }
}
