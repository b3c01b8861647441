//! What is left after pinfold, init or a command is killed at any step.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod decisions;
mod faults;
