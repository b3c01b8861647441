//! Workspaces, git worktrees and private directories.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod grants;
mod newcomers;
mod node_tools;
mod own_places;
mod programs;
mod workspace;
mod worktree;
