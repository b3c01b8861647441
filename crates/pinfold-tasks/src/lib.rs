//! The queue of tasks: what a task is, which states it passes through, who works on it, and where all that is
//! stored.
//!
//! The pure state machine of a [`Record`] decides every change. A worker that lost its lease can change nothing any
//! more, whatever it believes, and [stops by itself](Lease) before that.
//!
//! The states, times, codes and rules of repetition are those of MoltNet's task API.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod attempt;
mod failure;
mod file;
mod id;
mod lease;
mod record;
mod refused;
mod spec;
mod task;
#[cfg(test)]
mod testing;
mod text;
mod time;
mod words;

pub use attempt::{Attempt, AttemptStatus, Completion, Usage};
pub use failure::{Failure, Repetition, code};
pub use file::{load_task, read_task};
pub use id::{InvalidId, TaskId, Token};
pub use lease::{Lease, MARGIN_PARTS};
pub use record::{Claim, Heartbeat, QUARANTINE_AFTER, Record, Settled};
pub use refused::Refused;
pub use spec::{Budget, Limits, TaskSpec, VerifyStep};
pub use task::{Status, Task, Timeouts};
pub use time::{Clock, SystemClock, Timestamp};
pub use words::UnknownWord;
