//! Limits on time, memory, processes, files and disk.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod bounded;
mod limits;
mod memory;
mod seen;
