//! The command line, groups of settings, the Node guard and wrappers.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod activated;
mod audit;
mod checks;
mod documented;
mod groups;
mod guard;
mod invocation;
mod memory;
mod memory_inside;
mod memory_served;
mod review;
mod shown;
mod signals;
mod wrappers;
