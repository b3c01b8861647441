//! Snapshots, bases, images and project settings.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod project;
mod snapshot;
