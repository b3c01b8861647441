//! Tells of a bundle of extensions which of Node's process interfaces its code reaches for.
//!
//! A guardrail for people who mean well, not a boundary: see `docs/guides/guard.md`. A parser that
//! recurses can be made to overflow its stack, so files are read by a process of their own
//! ([`answer`]), whose end costs one file and not the answer.

mod api;
mod esbuild;
mod finding;
mod inspect;
mod manifest;
mod position;
mod reading;
mod text;
mod trace;
mod walk;

pub use finding::Finding;
pub use reading::{Answer, answer};
pub use walk::{Bundle, BundleError, NodeModules};
