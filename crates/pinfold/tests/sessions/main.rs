//! Commands in live sessions: exec, attach, detach, control, terminals and completions.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod attach;
mod clean;
mod completions;
mod control;
mod detach;
mod exec;
mod ssh;
mod streams;
mod surroundings;
mod wait;
