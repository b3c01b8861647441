//! Permission events (fanotify(7)): a process waits in open(2) until this one allows it.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::io::Errno;

use super::check;

/// Events that are read at once.
const MOST_EVENTS: usize = 32;
const EVENT: usize = size_of::<libc::fanotify_event_metadata>();

/// What is marked.
#[derive(Clone, Copy)]
pub(crate) enum Mark {
    /// Opens of the files in a directory.
    Children,
    /// Opens of a file, by whichever name.
    File,
}

/// A process that waits in open(2).
pub(crate) struct Opening {
    pub(crate) process: i32,
    /// The file that it opens.
    pub(crate) file: OwnedFd,
}

/// A group of marks. Processes that wait for it may go on when it is closed.
pub(crate) struct Permissions(OwnedFd);

impl Permissions {
    /// Makes one.
    ///
    /// # Errors
    /// Returns the error of `fanotify_init(2)`: `EPERM` without `CAP_SYS_ADMIN` in the first user
    /// namespace, `EINVAL` without `CONFIG_FANOTIFY_ACCESS_PERMISSIONS`, `ENOSYS` without
    /// `CONFIG_FANOTIFY`.
    pub(crate) fn new() -> Result<Self, Errno> {
        // An event that does not fit into the queue would be allowed.
        let flags = libc::FAN_CLASS_CONTENT
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        // To open a FIFO must not wait for its other end.
        let opened = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: integer arguments only; what it returns is a new descriptor or an error.
        let group = check(unsafe {
            libc::syscall(libc::SYS_fanotify_init, flags, opened as libc::c_uint)
        })?;
        // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(group as i32) }))
    }

    /// Marks a file or directory that is open. The caller sees the /proc that it is in.
    ///
    /// # Errors
    /// Returns the error of `fanotify_mark(2)`.
    pub(crate) fn mark(&self, mark: Mark, file: impl AsFd) -> Result<(), Errno> {
        self.change(libc::FAN_MARK_ADD, mark, file)
    }

    /// Takes a mark off.
    ///
    /// # Errors
    /// Returns the error of `fanotify_mark(2)`.
    pub(crate) fn unmark(&self, mark: Mark, file: impl AsFd) -> Result<(), Errno> {
        self.change(libc::FAN_MARK_REMOVE, mark, file)
    }

    fn change(&self, how: libc::c_uint, mark: Mark, file: impl AsFd) -> Result<(), Errno> {
        let (flags, mask) = match mark {
            Mark::Children => (libc::FAN_MARK_ONLYDIR, libc::FAN_EVENT_ON_CHILD),
            Mark::File => (0, 0),
        };
        let flags = how | flags;
        let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        let path = CString::new(path).map_err(|_| Errno::INVAL)?;
        let (group, above) = (self.0.as_raw_fd(), libc::AT_FDCWD);
        // SAFETY: the path is a NUL-terminated string that outlives the call, and the rest are integers.
        check(libc::c_long::from(unsafe {
            libc::fanotify_mark(group, flags, libc::FAN_OPEN_PERM | mask, above, path.as_ptr())
        }))?;
        Ok(())
    }

    /// Returns the processes that wait; none if there are none.
    ///
    /// # Errors
    /// Returns the error of `read(2)` if none can be read any more, and `EPROTO` for events of another
    /// version.
    pub(crate) fn read(&self) -> Result<Vec<Opening>, Errno> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); EVENT * MOST_EVENTS];
        let (mut rest, _) = match rustix::io::read(&self.0, &mut buffer) {
            Ok((read, rest)) => (&*read, rest),
            Err(errno @ (Errno::BADF | Errno::INVAL | Errno::FAULT)) => return Err(errno),
            // Nothing has happened, or a file could not be opened here: the kernel has refused that open.
            Err(_) => return Ok(Vec::new()),
        };
        let mut all = Vec::new();
        while rest.len() >= EVENT {
            let start: *const libc::fanotify_event_metadata = rest.as_ptr().cast();
            // SAFETY: at least so many bytes are there, each of which the kernel wrote; the structure is
            // plain integers, and need not be aligned to be read so.
            let event = unsafe { start.read_unaligned() };
            let length = event.event_len as usize;
            if event.vers != libc::FANOTIFY_METADATA_VERSION || length < EVENT {
                return Err(Errno::PROTO);
            }
            rest = rest.get(length..).ok_or(Errno::PROTO)?;
            if event.fd >= 0 {
                // SAFETY: the kernel made this descriptor for the reader of the event alone.
                let file = unsafe { OwnedFd::from_raw_fd(event.fd) };
                all.push(Opening { process: event.pid, file });
            }
        }
        Ok(all)
    }

    /// Lets a process go on, or has its open(2) fail with `EPERM`.
    ///
    /// # Errors
    /// Returns the error of `write(2)`.
    pub(crate) fn answer(&self, opening: &Opening, is_allowed: bool) -> Result<(), Errno> {
        let response = if is_allowed { libc::FAN_ALLOW } else { libc::FAN_DENY };
        let fd = opening.file.as_raw_fd().to_ne_bytes();
        let mut answer = [0; size_of::<libc::fanotify_response>()];
        let (first, second) = answer.split_at_mut(fd.len());
        first.copy_from_slice(&fd);
        second.copy_from_slice(&response.to_ne_bytes());
        match rustix::io::write(&self.0, &answer) {
            // The process that waited was killed.
            Ok(_) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}

impl AsFd for Permissions {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
