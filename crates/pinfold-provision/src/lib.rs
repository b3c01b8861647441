//! Agents as content-addressed layers: downloads verified outside, unpacked inside.
//!
//! A [`Recipe`] is a lock list: every package of an agent with the digest of its tarball. The
//! [`Cache`] turns a recipe into a [`Layer`], a read-only directory that a session mounts. The
//! host only downloads and compares digests; [`unpack::unpack`] runs inside a boundary that has
//! no network, and nothing of a package is ever executed on the host, install scripts least of
//! all.
//!
//! This crate knows neither how to download ([`Fetch`]) nor how to start a boundary
//! ([`Unpack`]): both are handed in.

pub mod cache;
pub mod digest;
mod lock;
pub mod names;
mod plain;
pub mod platform;
pub mod recipe;
mod seal;
pub mod shelf;
pub mod steps;
pub mod unpack;

pub use cache::{Cache, CacheError, Layer};
pub use digest::{Integrity, LayerId};
pub use lock::Lock;
pub use names::{LayerPath, PackageName, Registry};
pub use platform::{Cpu, Libc, Platform};
pub use recipe::{Recipe, RecipeError};
pub use shelf::{Pruned, Shelf, ShelfError};
pub use steps::{Event, Fetch, Fetched, Job, StepError, Unpack};
