//! Changing modes and times of files for programs, because Landlock has no rules for that.
//!
//! A program may have them changed of what it may change itself. The object is opened here, by what the caller named, and
//! what counts is where that object lies: nothing is looked up twice, and what the caller writes to its memory in the
//! meantime changes nothing.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;

use crate::heard::{Call, Listener};

/// Which objects a sandbox may change.
#[derive(Debug)]
pub struct Attributes {
    beneath: Vec<PathBuf>,
}

/// An object, as a call names it.
enum Object {
    /// An open file.
    Descriptor(u64),
    /// A path from a directory; of a link itself, or of what it leads to.
    Path { directory: u64, address: u64, flags: u64 },
}

/// What becomes of it.
enum Change {
    Mode(u64),
    Times(Timestamps),
}

#[cfg(target_arch = "x86_64")]
const HERE: u64 = libc::AT_FDCWD as u64;
const NOFOLLOW: u64 = libc::AT_SYMLINK_NOFOLLOW as u64;
const EMPTY: u64 = libc::AT_EMPTY_PATH as u64;
/// fchmodat2(2), of one number on every architecture (Linux 6.6).
pub const SYS_FCHMODAT2: i64 = 452;

impl Attributes {
    /// Allows what lies at these paths or beneath.
    #[must_use]
    pub fn new(places: &[PathBuf]) -> Self {
        let real = |path: &PathBuf| fs::canonicalize(path).ok();
        Self { beneath: places.iter().filter_map(real).collect() }
    }

    /// Does what a call wants.
    ///
    /// # Errors
    /// Returns `EPERM` for an object that the caller may not change; what the system says.
    pub fn change(&self, listener: &Listener, call: &Call) -> Result<(), Errno> {
        let (object, change) = read(call)?;
        let object = open(listener, call, &object)?;
        let here = format!("/proc/self/fd/{}", object.as_raw_fd());
        let place = fs::read_link(&here).map_err(|_| Errno::PERM)?;
        if !self.beneath.iter().any(|allowed| place.starts_with(allowed)) {
            return Err(Errno::PERM);
        }
        match change {
            Change::Mode(mode) => {
                let mode = Mode::from_raw_mode(mode as u32 & 0o7777);
                rustix::fs::chmodat(CWD, here, mode, AtFlags::empty())
            }
            Change::Times(times) => rustix::fs::utimensat(CWD, here, &times, AtFlags::empty()),
        }
    }
}

/// Returns what a call is about (chmod(2), utimensat(2), utime(2), futimesat(2)).
fn read(call: &Call) -> Result<(Object, Change), Errno> {
    let [a, b, c, d, ..] = call.arguments;
    let path = |directory, address, flags| Object::Path { directory, address, flags };
    Ok(match call.number {
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod => (path(HERE, a, 0), Change::Mode(b)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utime => (path(HERE, a, 0), Change::Times(seconds(call, b)?)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_utimes => (path(HERE, a, 0), Change::Times(times(call, b, 1000)?)),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat if b == 0 => {
            (Object::Descriptor(a), Change::Times(times(call, c, 1000)?))
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_futimesat => (path(a, b, 0), Change::Times(times(call, c, 1000)?)),
        libc::SYS_fchmod => (Object::Descriptor(a), Change::Mode(b)),
        libc::SYS_fchmodat => (path(a, b, 0), Change::Mode(c)),
        SYS_FCHMODAT2 => (path(a, b, d), Change::Mode(c)),
        libc::SYS_utimensat if b == 0 => (Object::Descriptor(a), Change::Times(times(call, c, 1)?)),
        libc::SYS_utimensat => (path(a, b, d), Change::Times(times(call, c, 1)?)),
        _ => return Err(Errno::NOSYS),
    })
}

/// Reads times of access and change, each a number of seconds and one of parts of a second.
fn times(call: &Call, address: u64, nanoseconds: i64) -> Result<Timestamps, Errno> {
    if address == 0 {
        return Ok(now());
    }
    let [a, b, c, d] = numbers(call, address)?;
    let time = |seconds, part: i64| Timespec {
        tv_sec: seconds,
        tv_nsec: part.saturating_mul(nanoseconds),
    };
    Ok(Timestamps { last_access: time(a, b), last_modification: time(c, d) })
}

/// Reads two times in seconds (utime(2)).
#[cfg(target_arch = "x86_64")]
fn seconds(call: &Call, address: u64) -> Result<Timestamps, Errno> {
    if address == 0 {
        return Ok(now());
    }
    let [access, modification] = numbers(call, address)?;
    let time = |seconds| Timespec { tv_sec: seconds, tv_nsec: 0 };
    Ok(Timestamps { last_access: time(access), last_modification: time(modification) })
}

fn now() -> Timestamps {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
}

fn numbers<const N: usize>(call: &Call, address: u64) -> Result<[i64; N], Errno> {
    let mut bytes = vec![0; N * 8];
    if call.read(address, &mut bytes) != Some(bytes.len()) {
        return Err(Errno::FAULT);
    }
    let mut numbers = [0; N];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = bytes.iter().rev().fold(0, |number, byte| number << 8 | i64::from(*byte));
    }
    Ok(numbers)
}

/// Opens what a call names, as its caller would find it.
fn open(listener: &Listener, call: &Call, object: &Object) -> Result<OwnedFd, Errno> {
    let (found, path, flags) = match *object {
        Object::Descriptor(number) => (base(call, number)?, Vec::new(), 0),
        Object::Path { directory, address, flags } => {
            if flags & !(NOFOLLOW | EMPTY) != 0 {
                return Err(Errno::INVAL);
            }
            let path = call.read_path(address).ok_or(Errno::FAULT)?;
            if path.is_empty() && flags & EMPTY == 0 {
                return Err(Errno::NOENT);
            }
            (base(call, directory)?, path, flags)
        }
    };
    // The number of a thread that has ended may be another's by now.
    if !listener.is_waiting(call) {
        return Err(Errno::SRCH);
    }
    if path.is_empty() {
        return Ok(found);
    }
    let nofollow = if flags & NOFOLLOW == 0 { OFlags::empty() } else { OFlags::NOFOLLOW };
    let how = OFlags::PATH | OFlags::CLOEXEC | nofollow;
    let path = Path::new(OsStr::from_bytes(&path));
    // /proc/self is this process's own here.
    rustix::fs::openat2(found.as_fd(), path, how, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

/// Opens a caller's descriptor, or its working directory.
fn base(call: &Call, descriptor: u64) -> Result<OwnedFd, Errno> {
    let path = match descriptor as i32 {
        libc::AT_FDCWD => format!("/proc/{}/cwd", call.thread),
        number => format!("/proc/{}/fd/{number}", call.thread),
    };
    let opened = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { Errno::PERM })
}
