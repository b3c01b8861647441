//! Who the inside is, towards the kernel.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Host ids for the inside of a caller who is root: they own no file and no process. Never host
/// uid 0: it could write `/proc/sys/kernel/core_pattern` without any capability.
pub(super) const SUBORDINATE: u32 = 0x7069_6e66 & 0x7fff_ffff;

/// Whether the caller is the machine's root, whose inside gets other ids. The root of a user
/// namespace is an ordinary user of the host in disguise: the subordinate ids do not exist there,
/// and its own are none that need protection.
pub(super) fn caller_is_root() -> bool {
    rustix::process::geteuid().is_root() && is_mapped(SUBORDINATE)
}

/// Whether a user id exists in this user namespace.
fn is_mapped(id: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u32>().unwrap_or(0));
        let (first, _, count) = (numbers.next(), numbers.next(), numbers.next());
        first.zip(count).is_some_and(|(first, count)| id >= first && id - first < count)
    })
}

/// The caller's ids, as the parent of a new user namespace names them.
pub(super) fn caller_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Maps the inside's one user and group to the caller's own ids, from within
/// (user_namespaces(7)).
///
/// # Errors
/// What writing the maps says.
pub(super) fn map_own_ids(inside: (u32, u32), own: (u32, u32)) -> Result<(), Errno> {
    let directory =
        rustix::fs::open("/proc/self", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    write_at(&directory, "setgroups", b"deny")?;
    write_at(&directory, "uid_map", format!("{} {} 1", inside.0, own.0).as_bytes())?;
    write_at(&directory, "gid_map", format!("{} {} 1", inside.1, own.1).as_bytes())
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
