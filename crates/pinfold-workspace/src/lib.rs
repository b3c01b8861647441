//! What a session may do to a workspace, and what becomes of what it did.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod accept;
pub mod after;
mod error;
pub mod generated;
pub mod git;
mod grant_words;
pub mod guard;
pub mod protected_dirs;
pub mod review;
pub mod shadow;

pub use error::GuardError;
