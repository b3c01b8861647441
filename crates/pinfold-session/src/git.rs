//! Git on the host's side of the wall.

pub(crate) mod aside;
pub(crate) mod config;
pub(crate) mod directory;
pub(crate) mod inspect;
pub(crate) mod keys;
pub(crate) mod named;
pub(crate) mod pointer;
pub(crate) mod read;
pub(crate) mod secrets;
pub(crate) mod settle;
