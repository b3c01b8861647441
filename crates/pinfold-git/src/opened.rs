//! What is open, by descriptor, and errors in words.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::PathBuf;

/// Returns the path of what a descriptor is open on.
pub fn held(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Returns an error in words.
pub fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}
