//! The caller's terminal and streams: moved in and out, shared, taken for a question, and spoken on.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod caller;
pub mod colours;
pub mod detach_keys;
pub mod input;
pub mod notices;
pub mod notify;
pub mod page;
pub mod progress;
pub mod prompt_overlay;
pub mod screen;
pub mod sequences;
pub mod stdio;
pub mod typing;
