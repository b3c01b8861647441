//! Descriptors that a copy of a process must not keep.

use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::io::Errno;

/// No descriptor has this number or a higher one: they are positive integers of 32 bits.
const PAST: u32 = 1 << 31;

/// Closes every descriptor that is not in `keep`, the standard streams included (close_range(2)).
/// Only for a process that was copied, and uses no value again that owns another one.
///
/// # Errors
/// Returns the error of `close_range(2)`.
pub fn close_all_but(keep: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept.into_iter().chain([PAST]) {
        if fd > first {
            // SAFETY: the caller names every descriptor that an owner in this process still
            // uses; the rest belong to values that the copy never touches again.
            let closed = unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
            if closed < 0 {
                let error = std::io::Error::last_os_error();
                return Err(Errno::from_io_error(&error).unwrap_or(Errno::BADF));
            }
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}
