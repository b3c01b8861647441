//! Hearing of calls, and what they are about (seccomp_unotify(2)).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Where calls are heard of.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

/// A call that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    id: u64,
    thread: u32,
    number: i64,
    arguments: [u64; 6],
}

/// A directory that is to have another name.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) old: Name,
    pub(super) new: Name,
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) above: OwnedFd,
    pub(super) last: OsString,
}

impl Listener {
    pub(super) fn new(descriptor: OwnedFd) -> Self {
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
    pub(super) fn next(&self) -> Result<Call, Errno> {
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
    pub(super) fn pass(&self, call: &Call) {
        self.send(call, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32);
    }

    /// Answers that the call has succeeded.
    pub(super) fn done(&self, call: &Call) {
        self.send(call, 0);
    }

    fn send(&self, call: &Call, flags: u32) {
        let mut answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // A caller that was killed needs none.
        let _ = self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast());
    }

    /// Returns what a call wants, if it is to rename a directory. Most rename a file, so what the new
    /// name is comes after that.
    pub(super) fn wanted(&self, call: &Call) -> Option<Wanted> {
        let [(old_directory, old_path), (new_directory, new_path)] = call.names()?;
        let old = call.find(old_directory, old_path)?;
        let node = rustix::fs::statat(&old.above, &old.last, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(node.st_mode) != FileType::Directory {
            return None;
        }
        let new = call.find(new_directory, new_path)?;
        // The number of a thread that has ended may be another's by now.
        let mut id = call.id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).ok()?;
        Some(Wanted { old, new })
    }

    fn control(&self, request: libc::Ioctl, argument: *mut libc::c_void) -> Result<(), Errno> {
        // SAFETY: every caller passes a pointer to what the request reads or writes
        // (seccomp_unotify(2)), which is alive during the call.
        let returned = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if returned < 0 { Err(last_error()) } else { Ok(()) }
    }
}

impl Call {
    /// Returns whether it puts its caller behind a wall that init does not stand behind.
    pub(super) fn is_wall(&self) -> bool {
        self.number == libc::SYS_landlock_restrict_self
    }

    /// Returns directory and address of the old and the new path.
    fn names(&self) -> Option<[(i32, u64); 2]> {
        let [a, b, c, d, ..] = self.arguments;
        match self.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => Some([(libc::AT_FDCWD, a), (libc::AT_FDCWD, b)]),
            libc::SYS_renameat | libc::SYS_renameat2 => Some([(a as i32, b), (c as i32, d)]),
            _ => None,
        }
    }

    /// Opens the directory that a path of the caller's ends in. Root and mounts are the same for
    /// everybody inside. /proc/self is init's own here, and init holds no directory but the root.
    fn find(&self, directory: i32, address: u64) -> Option<Name> {
        let path = self.read_path(address)?;
        let end = path.iter().rposition(|byte| *byte != b'/')?;
        let path = Path::new(OsStr::from_bytes(&path[..=end]));
        let last = path
            .file_name()
            .filter(|last| path.as_os_str().as_bytes().ends_with(last.as_bytes()))?;
        let above = path.parent()?;
        let base = match directory {
            _ if path.is_absolute() => PathBuf::new(),
            libc::AT_FDCWD => PathBuf::from(format!("/proc/{}/cwd", self.thread)),
            directory => PathBuf::from(format!("/proc/{}/fd/{directory}", self.thread)),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = rustix::fs::openat(CWD, base.join(above), flags, Mode::empty()).ok()?;
        Some(Name { above, last: last.to_owned() })
    }

    /// Returns a path in the caller's memory.
    fn read_path(&self, address: u64) -> Option<Vec<u8>> {
        /// What the kernel takes (`PATH_MAX`).
        const LONGEST: usize = 4096;
        let mut path = Vec::new();
        while path.len() < LONGEST {
            // What lies on the next page may not be there.
            let at = address.checked_add(path.len() as u64)?;
            let page = LONGEST - (at % LONGEST as u64) as usize;
            let mut part = vec![0_u8; page.min(LONGEST - path.len())];
            let length = read_memory(self.thread, at, &mut part)?;
            if let Some(end) = part[..length].iter().position(|byte| *byte == 0) {
                path.extend_from_slice(&part[..end]);
                return Some(path);
            }
            path.extend_from_slice(&part[..length]);
        }
        None
    }
}

/// Reads memory of a thread; `None` where it cannot be, or nothing can.
fn read_memory(thread: u32, address: u64, into: &mut [u8]) -> Option<usize> {
    let here = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    // SAFETY: the kernel writes at most `into.len()` bytes to `into`, and reads the other process's
    // memory, not this one's, at an address that may be anything.
    let read = unsafe {
        libc::process_vm_readv(thread as i32, &raw const here, 1, &raw const there, 1, 0)
    };
    usize::try_from(read).ok().filter(|read| *read > 0)
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
