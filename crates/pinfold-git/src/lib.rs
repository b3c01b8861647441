//! Git's files, read and written without trusting them, and the host's own git.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod baseline;
pub mod config;
pub mod copied_ahead;
pub mod dropped;
pub mod github;
pub mod host_git;
pub mod index;
pub mod keys;
pub mod known;
pub mod layout;
pub mod lfs;
pub mod packed;
pub mod pointer;
pub mod refs;
pub mod remotes;
pub mod secrets;
pub mod settled;
pub mod special_files;
pub mod staging;
pub mod stamp;
pub mod state;
pub mod user_config;
pub mod worktrees;
