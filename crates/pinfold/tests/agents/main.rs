//! Real agents of the npm registry.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod agents;
mod loops;
mod my_config;
mod state;
mod tasks;
