//! Signals as something to be read.

use std::os::fd::{FromRawFd as _, OwnedFd};

use rustix::io::Errno;

/// Blocks every signal, and returns a descriptor that is readable, without waiting, when this one has come
/// (signalfd(2)).
///
/// # Errors
/// Returns `ENOSYS` where there is no such descriptor.
pub fn block_signals(heard: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the sets are initialised before use and outlive the calls; signalfd returns a new
    // descriptor that nobody else owns.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, heard);
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if fd < 0 { Err(Errno::NOSYS) } else { Ok(OwnedFd::from_raw_fd(fd)) }
    }
}
