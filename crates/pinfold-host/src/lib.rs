//! The user's machine: directories, programs, the audit log, live sessions.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod anchor;
pub mod audit;
pub mod beneath;
pub mod boot;
pub mod digest;
pub mod directories;
pub mod faults;
pub mod file_id;
mod host;
pub mod io;
pub mod ipc;
pub mod launcher;
pub mod memo;
pub mod mount_points;
pub mod note;
pub mod orphans;
pub mod owned;
pub mod placeholder;
mod process;
pub mod rate_limit;
mod refusal;
mod search_path;
pub mod session_id;
pub mod sessions;
pub mod shares;
pub mod suspended;
pub mod sys;
pub mod within;
pub mod wrappers;

pub use host::Host;
pub use refusal::Refusal;
