//! The working tree of a run, and worktrees for branches.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod dedicated;
pub mod workspace;
