//! Git on the host's side of the wall.

pub(crate) mod collect;
pub(crate) mod committed;
pub(crate) mod config;
pub(crate) mod dropped;
pub(crate) mod host;
pub mod import;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod lfs;
pub(crate) mod modules;
pub(crate) mod named;
mod packed;
pub(crate) mod pen;
pub(crate) mod person;
pub(crate) mod pipes;
pub(crate) mod pointer;
pub(crate) mod private;
pub(crate) mod rebuild;
pub(crate) mod refs;
mod remotes;
pub(crate) mod secrets;
pub(crate) mod settle;
pub(crate) mod staging;
pub(crate) mod stamp;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod sync;
pub(crate) mod worktrees;

/// A path's bytes, for a message to init.
pub(crate) fn bytes(path: &std::path::Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}
