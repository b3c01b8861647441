//! The program as it is built, run as root and as an ordinary user.
//!
//! Every test of a promise about the inside runs twice when root runs the tests: as root, and as
//! an ordinary user made for the purpose. A test that lacks something prints that it skips, and
//! why.

#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod agents;
mod attach;
mod bounded;
mod broker;
mod budgets;
mod common;
mod completions;
mod container;
mod control;
mod detach;
mod exec;
mod faults;
mod gateway;
mod groups;
mod guard;
mod hostile;
mod image;
mod invocation;
mod limits;
mod logins;
mod managed;
mod mcp;
mod memory;
mod network;
mod overlay;
mod own_places;
mod project;
mod serve;
mod snapshot;
mod ssh;
mod surroundings;
mod terminal;
mod warm;
mod workspace;
mod worktree;
mod wrappers;
