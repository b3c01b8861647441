//! What every store promises, and what happens to a store whose process, server or connection dies.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failing helper is a failing test")]

mod artifacts;
mod at_once;
mod cut;
mod killed;
mod lies;
mod one_moment;
mod order;
mod promises;
mod server;
mod shared;
#[path = "../../src/testing.rs"]
mod testing;

// For the helpers, which are a part of the crate as well.
use pinfold_tasks::{Claim, Clock, Draft, Lease, TaskId, TaskSpec, Timestamp, Token};
