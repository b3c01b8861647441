//! Mounts for init: detached, with the caller's files shown as the service user's (mount_setattr(2), Linux 5.12).

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::refusal::Refusal;

/// User and group ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ids {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Returns a mount of a file or directory, and of everything that is mounted below, as nothing but init attaches it. Owners
/// are as in a user namespace, or as on the disk.
///
/// # Errors
/// Returns that its file system cannot show files under another owner.
pub(crate) fn grant(
    file: impl AsFd,
    is_writable: bool,
    shown: Option<&OwnedFd>,
    name: &str,
) -> Result<OwnedFd, Refusal> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    let mount = open_tree(file, "", flags).map_err(Refusal::at(format!("cannot mount {name}")))?;
    let read_only = if is_writable { 0 } else { libc::MOUNT_ATTR_RDONLY };
    let attributes = libc::mount_attr {
        attr_set: shown.map_or(0, |_| libc::MOUNT_ATTR_IDMAP)
            | libc::MOUNT_ATTR_NOSUID
            | libc::MOUNT_ATTR_NODEV
            | read_only,
        attr_clr: 0,
        propagation: libc::MS_PRIVATE,
        userns_fd: shown.map_or(0, |shown| shown.as_raw_fd() as u64),
    };
    // SAFETY: the path is a static string, and `attributes` outlives the call and is as large as it says.
    let returned = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if returned == 0 {
        return Ok(mount);
    }
    Err(Refusal::new(
        format!(
            "{name}: a file system there cannot show files under another owner ({})",
            last_error()
        ),
        "idmapped mounts need Linux 5.12 or newer and ext4, XFS, Btrfs or (Linux 6.3) tmpfs, and nothing else \
         mounted below: move the project, or choose another boundary (`--boundary`)",
    ))
}

/// Returns a user namespace by which a mount shows files of `on_disk` as those of `shown`, and no others. It needs
/// a process to be born in it, which ends at once.
///
/// # Errors
/// Returns the error of making it or of writing its maps.
pub(crate) fn namespace(on_disk: Ids, shown: Ids) -> Result<OwnedFd, Errno> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and with no stack given this is a fork(2), and this process has one thread: the child
    // has a copy of everything, and calls nothing but close(2), read(2) and _exit(2).
    let returned = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if returned == 0 {
        drop(writer);
        // Ends when the parent closes its side, also by dying.
        let _ = rustix::io::read(&reader, &mut [0_u8; 1]);
        // SAFETY: _exit(2) has no preconditions.
        unsafe { libc::_exit(0) }
    }
    let child = i32::try_from(returned).ok().and_then(Pid::from_raw).ok_or_else(last_error)?;
    let opened = map(child, on_disk, shown);
    drop(writer);
    waitpid(Some(child), WaitOptions::empty())?;
    opened
}

fn map(child: Pid, on_disk: Ids, shown: Ids) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let path = format!("/proc/{}", child.as_raw_nonzero());
    let process = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
    let write = |file: &str, from: u32, to: u32| -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(process.as_fd(), file, flags, Mode::empty())?;
        // In one call (user_namespaces(7)).
        rustix::io::write(file, format!("{from} {to} 1").as_bytes()).map(drop)
    };
    write("uid_map", on_disk.uid, shown.uid)?;
    write("gid_map", on_disk.gid, shown.gid)?;
    rustix::fs::openat(process.as_fd(), "ns/user", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns the error of the last call.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
