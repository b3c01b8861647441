//! Tests of the authority as a whole, on a file system in memory.

mod building;
mod deciding;
mod properties;
mod resolving;
mod support;
