//! seccomp(2) itself.

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::io::Errno;

/// Loads a classic BPF program as system call filter (seccomp(2)).
///
/// # Errors
/// Returns the error of `seccomp(2)`.
pub(crate) fn load(program: &[libc::sock_filter]) -> Result<(), Errno> {
    seccomp(program, 0).map(drop)
}

/// Does the same, and returns where this process hears of calls (seccomp_unotify(2)). A call that was
/// heard of is interrupted by nothing but the caller's end (Linux 5.19).
///
/// # Errors
/// Returns the error of `seccomp(2)`; `EBUSY` where another process hears of calls already.
pub fn listen(program: &[libc::sock_filter]) -> Result<OwnedFd, Errno> {
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    let listener = seccomp(program, flags)?;
    // SAFETY: with this flag the call returns a new descriptor, which nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) })
}

fn seccomp(program: &[libc::sock_filter], flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
    let length = u16::try_from(program.len()).map_err(|_| Errno::TOOBIG)?;
    // The kernel only reads the program although the field is mutable.
    let filter = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut() };
    // SAFETY: `filter` and the program it points to outlive the call.
    let loaded = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter)
    };
    if loaded < 0 {
        // libc::syscall leaves the number in errno.
        let code = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        return Err(Errno::from_raw_os_error(code));
    }
    Ok(loaded)
}
