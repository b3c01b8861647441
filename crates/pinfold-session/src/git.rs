//! Git on the host's side of the wall.

pub(crate) mod collect;
pub(crate) mod committed;
pub mod import;
pub(crate) mod modules;
pub(crate) mod named;
pub(crate) mod private;
pub(crate) mod rebuild;
pub(crate) mod sync;

/// A path's bytes, for a message to init.
pub(crate) fn bytes(path: &std::path::Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}
