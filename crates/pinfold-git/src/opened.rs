//! What is open, by descriptor.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// Returns the path of what a descriptor is open on.
pub fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}
