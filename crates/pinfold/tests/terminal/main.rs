//! Terminals and full-screen programs.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod notices;
mod terminal;
