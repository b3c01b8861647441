//! Commands that a sandbox asks the host to run: decided, recorded, run and ended.
//!
//! The sandbox has a socket and a program that connects to it. Only bytes cross: no descriptor of the
//! sandbox reaches a program on the host, and none of the host's reaches the sandbox. A request is
//! examined (`request`), decided by the settings' rules, by saved rules (`saved_rules`) or by the user
//! (`pinfold_ask`), recorded, and only then run.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod client;
mod context;
mod conversation;
mod entries;
mod gh;
pub mod git;
mod path_map;
pub mod program;
mod reaper;
mod refusal;
mod relay;
mod request;
mod result;
mod same;
mod saved_rules;
mod serve;

pub use context::{Context, SoFar};
pub use entries::{DIRECTORY, EntriesError, PROGRAM, SOCKET, door, entries, own_program};
pub use path_map::PathMap;
pub use reaper::{end_as, end_with, mind};
pub use result::HostExecResult;
pub use saved_rules::{SavedRule, SavedRules};
pub use serve::Broker;
