//! Who the inside is, towards the kernel.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Host ids for the inside of a caller who is root: they own no file and no process. Never host
/// uid 0: it could write `/proc/sys/kernel/core_pattern` without any capability.
pub(super) const SUBORDINATE: u32 = 0x7069_6e66 & 0x7fff_ffff;

/// Whether the caller is root, whose inside gets other ids.
pub(super) fn caller_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Maps one user and one group to the caller's own, from within (user_namespaces(7)).
///
/// # Errors
/// What writing the maps says.
pub(super) fn map_own_ids(uid: u32, gid: u32) -> Result<(), Errno> {
    // The host's ids are what the child had before its maps exist: those of its creator, which
    // for a caller who is not root are the ones to show inside.
    let directory =
        rustix::fs::open("/proc/self", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    write_at(&directory, "setgroups", b"deny")?;
    write_at(&directory, "uid_map", format!("{uid} {uid} 1").as_bytes())?;
    write_at(&directory, "gid_map", format!("{gid} {gid} 1").as_bytes())
}

/// Maps the inside's one user and group to host ids, from outside, for a caller who is root.
///
/// # Errors
/// What writing the maps says.
pub(super) fn map_ids_of(pid: u32, inside: (u32, u32), host: u32) -> io::Result<()> {
    let path = format!("/proc/{pid}");
    let directory = rustix::fs::open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    write_at(&directory, "uid_map", format!("{} {host} 1", inside.0).as_bytes())?;
    write_at(&directory, "gid_map", format!("{} {host} 1", inside.1).as_bytes())?;
    Ok(())
}

pub(super) fn write_at(directory: impl AsFd, name: &str, content: &[u8]) -> Result<(), Errno> {
    let file =
        rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    let written = rustix::io::write(file, content)?;
    if written == content.len() { Ok(()) } else { Err(Errno::IO) }
}
