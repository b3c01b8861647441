//! The system calls that no library wraps, each behind a safe function.

use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

/// Turns the C convention into a `Result`.
fn check(returned: libc::c_long) -> Result<libc::c_long, Errno> {
    if returned < 0 {
        // libc::syscall leaves the number in errno.
        let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        Err(Errno::from_raw_os_error(code))
    } else {
        Ok(returned)
    }
}

/// Linux 5.7. libc's constant is too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Which side of a clone this is.
pub(crate) enum Side {
    /// The caller, with a descriptor of the new process.
    Parent { child: OwnedFd, pid: u32 },
    /// The new process: a copy of the caller with the calling thread alone.
    Child,
}

/// Calls clone3(2) without shared memory, or clone(2) where that is refused and does the same: a fork into new namespaces, and
/// into a cgroup when given. A panic ends the child at once.
///
/// # Errors
/// Returns the error of `clone3(2)`; `ENOSPC`, `EPERM` and `EUSERS` mean that user namespaces are off or
/// used up.
pub(crate) fn clone_into(flags: u64, cgroup: Option<BorrowedFd<'_>>) -> Result<Side, Errno> {
    let mut pidfd: RawFd = -1;
    // SAFETY: clone_args is plain integers, for which zero is a value.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags | libc::CLONE_PIDFD as u64;
    arguments.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    arguments.exit_signal = libc::SIGCHLD as u64;
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    // SAFETY: without CLONE_VM and with no stack given this is a fork: the child goes on with a
    // private copy of this stack. Callers hold no other thread (checked by `launch`), so no
    // lock is left taken in the child. `arguments` and `pidfd` outlive the call.
    let cloned = check(unsafe {
        libc::syscall(libc::SYS_clone3, &raw mut arguments, size_of::<libc::clone_args>())
    });
    let returned = match cloned {
        // The filter of a container refuses a call whose flags it cannot see (Docker's default).
        Err(Errno::NOSYS) if flags == 0 && cgroup.is_none() => {
            let flags = libc::CLONE_PIDFD | libc::SIGCHLD;
            // SAFETY: as above; the three first arguments are the same on all architectures that are
            // built for (clone(2)), and the others are not used with these flags.
            check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut pidfd, 0, 0) })?
        }
        cloned => cloned?,
    };
    if returned == 0 {
        pinfold_init::end_on_panic();
        return Ok(Side::Child);
    }
    // SAFETY: the kernel stored a new descriptor that nobody else owns.
    let child = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Side::Parent { child, pid: returned as u32 })
}

/// Calls mount_setattr(2) (Linux 5.12).
///
/// # Errors
/// Returns the error of `mount_setattr(2)`.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    attributes: &libc::mount_attr,
) -> Result<(), Errno> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static string and `attributes` outlives the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Attributes to set, and a propagation to change to (0: leave it).
pub(crate) fn attributes(set: u64, propagation: u64) -> libc::mount_attr {
    libc::mount_attr { attr_set: set, attr_clr: 0, propagation, userns_fd: 0 }
}

/// Calls prctl(2) with one argument.
///
/// # Errors
/// Returns the error of `prctl(2)`.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> Result<i32, Errno> {
    // SAFETY: only options with integer arguments are passed in this crate.
    let returned = unsafe { libc::prctl(option, argument, 0, 0, 0) };
    Ok(check(libc::c_long::from(returned))? as i32)
}

/// Puts the process in a new, anonymous session keyring (keyctl(2)), away from the caller's.
/// A kernel without keyrings has nothing to leave.
///
/// # Errors
/// Returns the error of `keyctl(2)`, `ENOSYS` aside.
pub(crate) fn leave_session_keyring() -> Result<(), Errno> {
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING takes a name; null means anonymous.
    let joined = check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    });
    match joined {
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Sets the three user ids and the three group ids and leaves every supplementary group.
/// Calls the kernel directly: glibc's wrappers would signal threads that a clone left behind.
///
/// # Errors
/// Returns the error of `setresuid(2)`.
pub(crate) fn become_user(uid: u32, gid: u32) -> Result<(), Errno> {
    // SAFETY: integer arguments only; the empty list of groups is never read.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// Clears every capability set, the bounding set included (capabilities(7)).
///
/// # Errors
/// Returns the error of `prctl(2)` and `capset(2)`.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    clear_bounding_set()?;
    clear_capabilities()
}

/// Clears every capability set but the bounding set, for which an ordinary user has no right (capabilities(7)).
///
/// # Errors
/// Returns the error of `capset(2)`.
pub(crate) fn clear_capabilities() -> Result<(), Errno> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    let header = Header { version: VERSION_3, pid: 0 };
    let empty = [0_u32; 6];
    // SAFETY: version 3 takes two structures of three 32-bit masks, which `empty` is.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, empty.as_ptr()) })?;
    Ok(())
}

/// Clears the capability bounding set: no program gives any (capabilities(7)).
///
/// # Errors
/// Returns the error of `prctl(2)`; `EPERM` for a process that has no right to, unless it is clear.
pub(crate) fn clear_bounding_set() -> Result<(), Errno> {
    for capability in 0..64 {
        match prctl(libc::PR_CAPBSET_READ, capability) {
            // Dropping takes a right which is gone with the rest.
            Ok(0) => {}
            Ok(_) => drop(prctl(libc::PR_CAPBSET_DROP, capability)?),
            // The first number that the kernel does not know ends the set.
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Sets a soft and hard limit of this process (setrlimit(2)).
///
/// # Errors
/// Returns the error of `setrlimit(2)`.
pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<(), Errno> {
    let limit = libc::rlimit64 { rlim_cur: soft, rlim_max: hard };
    // SAFETY: `limit` outlives the call; the old limit is not asked for.
    check(unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource, &raw const limit, std::ptr::null::<u8>())
    })?;
    Ok(())
}

/// Returns the hard limit of a resource of this process.
pub(crate) fn hard_limit(resource: u32) -> u64 {
    limit(resource).rlim_max
}

/// Returns the soft limit of a resource of this process.
pub(crate) fn soft_limit(resource: u32) -> u64 {
    limit(resource).rlim_cur
}

/// Returns both limits of a resource of this process; none at all if they cannot be read.
fn limit(resource: u32) -> libc::rlimit64 {
    let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a null new limit changes nothing and `limit` outlives the call.
    let returned = unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource, std::ptr::null::<u8>(), &raw mut limit)
    };
    if returned < 0 { libc::rlimit64 { rlim_cur: 0, rlim_max: 0 } } else { limit }
}

/// Brings the loopback interface of this network namespace up (netdevice(7)).
///
/// # Errors
/// Returns the error of `ioctl(2)`.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType};
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: ifreq is integers and a union of integers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads an ifreq, which outlives the call.
    check(libc::c_long::from(unsafe {
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    }))?;
    Ok(())
}

/// Overwrites the environment that this process was started with. A forked init keeps the
/// caller's in its memory although nothing inside may see it.
pub(crate) fn wipe_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: called in the forked child, which has one thread and never reads its environment
    // again. The strings lie in writable memory of the process's own stack area or heap
    // (execve(2), setenv(3)); each is overwritten within its length, then the list is emptied.
    unsafe {
        let mut entry = environ;
        if entry.is_null() {
            return;
        }
        while !(*entry).is_null() {
            let length = CStr::from_ptr(*entry).to_bytes().len();
            std::ptr::write_bytes((*entry).cast::<u8>(), 0, length);
            entry = entry.add(1);
        }
        *environ = std::ptr::null_mut();
    }
}

/// Replaces the command line that this process shows, by `shown` as far as it has room: the caller's names files of the host, and
/// /proc/1/cmdline is for everybody to read.
///
/// # Errors
/// Returns the error of reading `/proc/self/stat`; `EINVAL` where it is not as proc(5) describes it.
pub(crate) fn wipe_arguments(shown: &CStr) -> Result<(), Errno> {
    let shown = shown.to_bytes();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/self/stat", flags, rustix::fs::Mode::empty())?;
    // 52 numbers of at most 20 digits, a name of at most 16 bytes.
    let mut stat = [0_u8; 2048];
    let length = rustix::io::read(file, &mut stat)?;
    // The name may be any bytes.
    let stat = String::from_utf8_lossy(&stat[..length]);
    // arg_start and arg_end are fields 48 and 49, counted from 3 after the parenthesised name.
    let after_name = stat.rsplit_once(") ").ok_or(Errno::INVAL)?.1;
    let mut addresses = after_name.split(' ').skip(45).map(str::parse::<usize>);
    let (Some(Ok(start)), Some(Ok(end))) = (addresses.next(), addresses.next()) else {
        return Err(Errno::INVAL);
    };
    let length = end.saturating_sub(start);
    let area = std::ptr::with_exposed_provenance_mut::<u8>(start);
    // SAFETY: the kernel put the arguments there (execve(2)), on this process's own writable
    // stack, which nothing but std's copies of pointers refers to; this process is a forked child
    // that never asks for its arguments again, and has one thread.
    unsafe {
        std::ptr::write_bytes(area, 0, length);
        std::ptr::copy_nonoverlapping(shown.as_ptr(), area, shown.len().min(length));
    }
    Ok(())
}

/// Becomes another program (execveat(2)), with the standard streams and one more descriptor at this
/// number; all others close.
///
/// # Errors
/// Returns the error of `dup2(2)` and `execveat(2)`.
#[expect(clippy::disallowed_methods, reason = "the child of a launch becomes its container engine")]
pub(crate) fn execute(
    program: BorrowedFd<'_>,
    arguments: &[CString],
    environment: &[CString],
    handed: BorrowedFd<'_>,
    number: RawFd,
) -> Result<Infallible, Errno> {
    let list = |words: &[CString]| -> Vec<*const libc::c_char> {
        words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
    };
    // What lies at the number may be the program itself, or what is handed on.
    let program = rustix::io::fcntl_dupfd_cloexec(program, number + 1)?;
    // The interpreter of a script opens it by its number.
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::empty())?;
    let handed = rustix::io::fcntl_dupfd_cloexec(handed, number + 1)?;
    // SAFETY: nothing in this process, which ends as itself here or exits, owns what was at the
    // number but values that it never drops: it calls _exit(2) next. dup2 takes integers.
    check(libc::c_long::from(unsafe { libc::dup2(handed.as_raw_fd(), number) }))?;
    let (arguments, environment) = (list(arguments), list(environment));
    // SAFETY: both lists end with a null and point to strings that outlive the call.
    unsafe { libc::fexecve(program.as_raw_fd(), arguments.as_ptr(), environment.as_ptr()) };
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::NOEXEC))
}

/// Calls unshare(2).
///
/// # Errors
/// Returns the error of `unshare(2)`.
pub(crate) fn unshare(namespaces: i32) -> Result<(), Errno> {
    // SAFETY: integer arguments only; no namespace flag separates what threads share.
    check(libc::c_long::from(unsafe { libc::unshare(namespaces) }))?;
    Ok(())
}

/// Returns the user namespace that owns another namespace (ioctl_ns(2)).
///
/// # Errors
/// Returns the error of `ioctl(2)`; `EPERM` if it is not below the caller's.
pub(crate) fn owner_of_namespace(namespace: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: the request takes no argument, and what it returns is a new descriptor or an error.
    let fd = check(libc::c_long::from(unsafe {
        libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_USERNS)
    }))?;
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Returns the namespace above a user namespace (ioctl_ns(2)).
///
/// # Errors
/// Returns the error of `ioctl(2)`; `EPERM` if it is not below the caller's.
pub(crate) fn parent_of_namespace(namespace: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    // SAFETY: the request takes no argument, and what it returns is a new descriptor or an error.
    let fd = check(libc::c_long::from(unsafe {
        libc::ioctl(namespace.as_raw_fd(), libc::NS_GET_PARENT)
    }))?;
    // SAFETY: the kernel has just made this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Has this process run before all ordinary ones whenever it can (sched(7), `SCHED_RR`).
///
/// # Errors
/// Returns the error of `sched_setscheduler(2)`: `EPERM` where its control group gives no such time.
pub(crate) fn run_first() -> Result<(), Errno> {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure outlives the call, which only reads it.
    check(libc::c_long::from(unsafe {
        libc::sched_setscheduler(0, libc::SCHED_RR, &raw const lowest)
    }))?;
    Ok(())
}

/// Sends SIGKILL to every process that this one may signal, except itself (kill(2)). Only for a process in a Landlock domain that
/// keeps signals in: elsewhere these are all processes of its user.
pub(crate) fn kill_all_in_reach() {
    // SAFETY: integer arguments only.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Ends this process at once. Call it in a child that shares destructors with its parent.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: _exit(2) has no preconditions.
    unsafe { libc::_exit(status) }
}

pub(crate) mod fanotify;
pub(crate) mod landlock;

#[cfg(test)]
mod tests;
