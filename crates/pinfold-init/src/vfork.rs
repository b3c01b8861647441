//! Starting the command without copying init's memory, and with a copy.

use std::os::raw::{c_int, c_void};

use rustix::io::Errno;
use rustix::process::Pid;

/// Bytes of stack for what happens between clone and exec.
const STACK: usize = 256 * 1024;

/// Runs `child` in a new process that borrows this one's memory until it executes something; until
/// then this process waits (clone(2), `CLONE_VM | CLONE_VFORK`). If `child` returns, the new
/// process ends with status 127. Saves the copy of the page tables that fork(2) makes.
///
/// # Errors
/// Returns the error of `clone(2)`.
#[expect(clippy::disallowed_methods, reason = "init starts what runs inside")]
pub(crate) fn spawn<F: FnOnce()>(child: F) -> Result<Pid, Errno> {
    let mut stack: Vec<u128> = vec![0; STACK / size_of::<u128>()];
    let mut child = Some(child);
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the stack is aligned, is used by nobody else and outlives the child's use of it,
    // because CLONE_VFORK suspends this thread until the child has executed a program or ended.
    // Until then the child is to the memory that both share what this thread is: other threads
    // (moves.rs) run on, borrow nothing that `child` holds, and locks are theirs or this thread's
    // as usual. Descriptors and signal handlers are copied.
    let pid = unsafe {
        let top = stack.as_mut_ptr().add(stack.len()).cast::<c_void>();
        libc::clone(enter::<F>, top, flags, std::ptr::from_mut(&mut child).cast())
    };
    match Pid::from_raw(pid) {
        Some(pid) if pid.as_raw_nonzero().get() > 0 => Ok(pid),
        _ => Err(Errno::from_raw_os_error(
            std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EAGAIN),
        )),
    }
}

/// Does the same with a copy of this process's memory, and without waiting.
///
/// # Errors
/// Returns the error of `fork(2)`.
#[expect(
    clippy::disallowed_methods,
    reason = "a copy of init above what runs inside, and no other program"
)]
pub(crate) fn copy(child: impl FnOnce()) -> Result<Pid, Errno> {
    // SAFETY: the copy has this thread alone. Others (moves.rs) may hold locks of the allocator, which
    // the C library's fork takes first; there is no other lock that they and the copy use.
    match unsafe { libc::fork() } {
        0 => {
            child();
            // SAFETY: _exit(2) has no preconditions; destructors belong to the original.
            unsafe { libc::_exit(127) }
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or(Errno::AGAIN),
    }
}

extern "C" fn enter<F: FnOnce()>(argument: *mut c_void) -> c_int {
    // SAFETY: `spawn` passes a pointer to its `Option<F>`, which is alive and borrowed by
    // nobody else while its thread is suspended.
    let child = unsafe { &mut *argument.cast::<Option<F>>() };
    if let Some(child) = child.take() {
        child();
    }
    127
}
