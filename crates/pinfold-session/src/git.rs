//! Git on the host's side of the wall.

pub(crate) mod config;
