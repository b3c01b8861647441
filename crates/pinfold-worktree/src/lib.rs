//! Which working tree a run works in, and a worktree of its own for a branch.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod dedicated;
pub mod workspace;
