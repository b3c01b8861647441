//! Git on the host's side of the wall.

pub mod collect;
pub mod committed;
pub mod import;
pub mod kept;
pub mod modules;
pub mod named;
pub mod private;
pub mod rebuild;
pub(crate) mod record;
pub mod sync;

/// Returns a path's bytes, for a message to init.
pub fn bytes(path: &std::path::Path) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec()
}
