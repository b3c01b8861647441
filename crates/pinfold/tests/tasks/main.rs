//! The queue of tasks, workers, and the verification of results.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod attacks;
mod ends;
mod groups;
mod landing;
mod landing_attacks;
mod loops;
mod memory;
mod policy;
mod queue;
mod scene;
mod server;
mod team;
mod team_attacks;
mod verification;
