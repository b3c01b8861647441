//! The user's machine: directories, programs, the audit log, live sessions.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod digest;
pub mod io;
mod refusal;

pub use refusal::Refusal;
