//! Hostile programs in the sandbox.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod hostile;
mod landlock;
mod nested;
mod nested_root;
