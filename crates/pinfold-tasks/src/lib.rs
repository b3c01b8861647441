//! The queue of tasks: what a task is, which states it passes through, who works on it, and where all that is
//! stored.
//!
//! A worker [claims](Queue::claim) a task and gets a lease on one attempt. It renews the lease while it works and
//! [stops by itself](Lease) before the lease ends. The pure state machine of a [`Record`] decides every change, in
//! one transaction of a [`Store`] and by the store's clock. So a worker that lost its lease can change nothing any
//! more, whatever it believes.
//!
//! The states, times, codes and rules of repetition are those of MoltNet's task API.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod artifact;
mod attempt;
mod engine;
mod failure;
mod file;
mod id;
mod inquiry;
mod landing;
mod lease;
mod queue;
mod record;
mod refused;
mod shape;
mod source;
mod spec;
mod spec_status;
mod store;
mod task;
#[cfg(test)]
mod testing;
mod text;
mod touch;
mod words;
mod worker;

pub use artifact::{
    ARTIFACT_NOTES, ArtifactOrigin, LARGEST_ARTIFACT, MOST_ARTIFACTS, artifact_cursor,
    artifact_page, artifact_value, attempt_key, find_artifact,
};
pub use attempt::{Attempt, AttemptStatus, Completion, Usage};
pub use engine::{Ending, Engine, Stop};
pub use failure::{Failure, Repetition, code};
pub use file::{
    LONGEST_FILE, SpecFile, body_of, from_stored, load_task, read_spec, read_task, set_status,
    to_stored,
};
pub use id::{InvalidId, TaskId, Token};
pub use inquiry::{ArtifactLabel, AttemptQueue, Inquiry, Reply};
pub use landing::{Landing, LandingState};
pub use lease::{Lease, MARGIN_PARTS};
pub use pinfold_content::{Clock, SystemClock, Timestamp};
pub use queue::{
    Candidate, Claimed, Draft, Holder, ListPage, Message, NewMessage, Provenance, Queue, QueueError,
};
pub use record::{Claim, Heartbeat, QUARANTINE_AFTER, Record, Settled};
pub use refused::Refused;
pub use shape::{attempt_value, message_value};
pub use source::{Denied, Source};
pub use spec::{Budget, Limits, TaskSpec, VerifyStep};
pub use spec_status::SpecStatus;
pub use store::{
    Listing, Note, Row, SqlDatabase, SqlTransaction, SqliteStore, Store, StoreError, Transaction,
    Value,
};
pub use task::{Status, Task, Timeouts};
pub use touch::{GroupLimits, Touch};
pub use words::UnknownWord;
pub use worker::{
    Action, Answer, Request, Tally, Until, Worker, WorkerEvent, WorkerMachine, WorkerSettings,
};
