//! Who the sandbox is, towards the kernel.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Host ids for the sandbox of a caller who is root: they own no file and no process. Never host
/// uid 0: it could write `/proc/sys/kernel/core_pattern` without any capability.
pub(super) const SUBORDINATE: u32 = 0x7069_6e66 & 0x7fff_ffff;

/// Returns whether the caller is or may be the machine's root, whose inside gets other ids. The root of
/// a user namespace that stands for another id outside is an ordinary user in disguise, whose own id
/// needs no protection. Where that is not certain, it is root.
pub(crate) fn caller_is_root() -> bool {
    rustix::process::geteuid().is_root() && !stands_for_another(read_map().as_deref())
}

fn read_map() -> Option<String> {
    std::fs::read_to_string("/proc/self/uid_map").ok()
}

/// Returns whether a `uid_map` (user_namespaces(7): inside, outside, count) gives id 0 another id
/// outside.
fn stands_for_another(map: Option<&str>) -> bool {
    map.unwrap_or("").lines().any(|line| {
        let numbers: Vec<Option<u32>> =
            line.split_whitespace().map(|word| word.parse().ok()).collect();
        matches!(numbers[..], [Some(0), Some(outside), Some(1..)] if outside != 0)
    })
}

/// Returns the caller's ids, as the parent of a new user namespace names them.
pub(crate) fn caller_ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

/// Maps the sandbox's one user and group to the caller's own ids, from within (user_namespaces(7)).
///
/// # Errors
/// Returns the error of writing the maps.
pub(crate) fn map_own_ids(inside: (u32, u32), own: (u32, u32)) -> Result<(), Errno> {
    let directory =
        rustix::fs::open("/proc/self", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    map_ids_at(&directory, inside, own)
}

/// Does the same by the directory of this process in `/proc`.
///
/// # Errors
/// Returns the error of writing the maps.
pub(super) fn map_ids_at(
    directory: impl AsFd,
    inside: (u32, u32),
    own: (u32, u32),
) -> Result<(), Errno> {
    match write_at(&directory, "setgroups", b"deny") {
        // A kernel without it (gVisor's) does not ask for it either.
        Err(Errno::NOENT) => {}
        denied => denied?,
    }
    write_at(&directory, "uid_map", format!("{} {} 1", inside.0, own.0).as_bytes())?;
    write_at(&directory, "gid_map", format!("{} {} 1", inside.1, own.1).as_bytes())
}

/// Maps the sandbox's one user and group to host ids, from outside, for a caller who is root.
///
/// # Errors
/// Returns the error of writing the maps.
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

#[cfg(test)]
mod tests {
    use super::stands_for_another;

    #[test]
    fn root_is_in_disguise_only_where_its_map_says_so() {
        assert!(stands_for_another(Some("         0       1000          1\n")));
        assert!(stands_for_another(Some("0 1000 1\n1 100000 65536\n")));
        for map in [None, Some(""), Some("0 0 4294967295\n"), Some("0 0 1\n"), Some("x y z")] {
            assert!(!stands_for_another(map), "{map:?}");
        }
    }
}
