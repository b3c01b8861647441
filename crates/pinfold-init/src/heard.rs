//! Hearing of system calls before they are made, and answering them (seccomp_unotify(2)).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Where calls are heard of.
#[derive(Debug)]
pub struct Listener(OwnedFd);

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    id: u64,
    /// The thread that makes it.
    pub thread: u32,
    /// Its number.
    pub number: i64,
    /// What it was given.
    pub arguments: [u64; 6],
}

impl Listener {
    /// Listens at the descriptor that seccomp(2) returned.
    #[must_use]
    pub fn new(descriptor: OwnedFd) -> Self {
        let listener = Self(descriptor);
        // Caller and answer take turns, best on one CPU (Linux 6.6); before that it takes longer.
        let request = libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS;
        // SAFETY: the request takes flags by value.
        let _ = unsafe { libc::ioctl(listener.0.as_raw_fd(), request, 1 as libc::c_ulong) };
        listener
    }

    /// Waits for a call.
    ///
    /// # Errors
    /// Returns `ENOENT` for one whose caller has ended.
    pub fn next(&self) -> Result<Call, Errno> {
        // SAFETY: all of these structures' fields are integers, for which zero is a value. The kernel
        // wants them zeroed, and writes no more than this one.
        let mut heard: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut heard).cast())?;
        Ok(Call {
            id: heard.id,
            thread: heard.pid,
            number: i64::from(heard.data.nr),
            arguments: heard.data.args,
        })
    }

    /// Lets the kernel make the call.
    pub fn pass(&self, call: &Call) {
        self.send(call, 0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Answers that the call has succeeded, or with which error it has failed.
    pub fn answer(&self, call: &Call, result: Result<(), Errno>) {
        let error = result.map_or_else(|errno| -errno.raw_os_error(), |()| 0);
        self.send(call, error, 0);
    }

    /// Returns whether the caller still waits. The number of a thread that has ended may be another's.
    #[must_use]
    pub fn is_waiting(&self, call: &Call) -> bool {
        let mut id = call.id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
    }

    fn send(&self, call: &Call, error: i32, flags: u32) {
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
        // A caller that was killed needs none.
        let _ = self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast());
    }

    fn control(&self, request: libc::Ioctl, argument: *mut libc::c_void) -> Result<(), Errno> {
        // SAFETY: every caller passes a pointer to what the request reads or writes
        // (seccomp_unotify(2)), which is alive during the call.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if returned < 0 { Err(last_error()) } else { Ok(()) }
    }
}

impl Call {
    /// Returns a path in the caller's memory; `None` if it cannot be read or does not end.
    #[must_use]
    pub fn read_path(&self, address: u64) -> Option<Vec<u8>> {
        /// What the kernel takes (`PATH_MAX`).
        const LONGEST: usize = 4096;
        let mut path = Vec::new();
        while path.len() < LONGEST {
            // What lies on the next page may not be there.
            let at = address.checked_add(path.len() as u64)?;
            let page = LONGEST - (at % LONGEST as u64) as usize;
            let mut part = vec![0_u8; page.min(LONGEST - path.len())];
            let length = self.read(at, &mut part)?;
            if let Some(end) = part[..length].iter().position(|byte| *byte == 0) {
                path.extend_from_slice(&part[..end]);
                return Some(path);
            }
            path.extend_from_slice(&part[..length]);
        }
        None
    }

    /// Reads the caller's memory, and returns how many bytes that gave; `None` where it cannot be read.
    #[must_use]
    pub fn read(&self, address: u64, into: &mut [u8]) -> Option<usize> {
        let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
        let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
        // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and reads the other process's
        // memory, not this one's, at an address that may be anything.
        let read = unsafe {
            libc::process_vm_readv(self.thread as i32, &raw const here, 1, &raw const there, 1, 0)
        };
        usize::try_from(read).ok().filter(|read| *read > 0)
    }
}

impl AsFd for Listener {
    /// Returns the descriptor, which is readable when a call waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
