//! Container engines as boundaries, managed containers, and agents' images.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod container;
mod image;
mod inside;
mod managed;
