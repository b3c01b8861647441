//! The root that an engine sees: the bundle, programs and libraries of the host, and nothing else of it. What
//! gets out of a container by a fault of its engine finds itself there.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::namespace::{Root, attach, clone_tree, grant_attributes, new_filesystem};

/// Where the tree of a container lies in it, its configuration,
pub(super) const ROOT: &str = "/tmp/root";
pub(super) const BUNDLE: &str = "/tmp/bundle";
/// and what the engine writes about it.
pub(super) const STATE: &str = "/tmp/state";

/// A directory of every system, over which the new root lies until it is the root.
const STAGE: &str = "/tmp";

/// Where systems have programs and libraries (hier(7)), Nix and Guix theirs, and what ld.so(8) reads.
const SYSTEM: [&str; 10] =
    ["bin", "etc/ld.so.cache", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "sbin", "usr"];

/// Made empty.
const EMPTY: [&str; 9] =
    ["dev", "etc", "proc", "sys", "sys/fs", "sys/fs/cgroup", "tmp", "tmp/bundle", "tmp/state"];

/// Where control groups are mounted (systemd, cgroups(7)).
const GROUPS: &str = "sys/fs/cgroup";

/// Enters it, with the tree of a container and the host's control groups, or none.
///
/// # Errors
/// Returns the error of the mount calls and `pivot_root(2)`.
pub(super) fn enter(root: &Root, has_groups: bool) -> Result<(), Errno> {
    let new = new_filesystem("tmpfs", &[("mode", "0755")], 0)?;
    // pivot_root(2) wants a mount point, and a mount that is attached nowhere takes no other before Linux 6.15.
    attach(&new, CWD, STAGE)?;
    for directory in EMPTY {
        rustix::fs::mkdirat(&new, directory, Mode::RWXU)?;
    }
    rustix::fs::mkdirat(&new, relative(ROOT), Mode::RWXU)?;
    for name in SYSTEM.into_iter().chain(has_groups.then_some(GROUPS)) {
        lend(name, &new)?;
    }
    let devices = clone_tree(root.resolve("dev".as_ref())?, "", 0)?;
    attach(devices, &new, "dev")?;
    // The engine finds itself and its child by numbers of this process's own namespace.
    attach(new_filesystem("proc", &[], 0)?, &new, "proc")?;
    root.move_to(&new, relative(ROOT))?;
    rustix::process::fchdir(&new)?;
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")
}

/// Puts what the host has at a path into the new root, to be read.
fn lend(name: &str, new: impl AsFd) -> Result<(), Errno> {
    let path = Path::new("/").join(name);
    let stat = match rustix::fs::lstat(&path) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let to = rustix::fs::readlink(&path, Vec::new())?;
            return rustix::fs::symlinkat(to, new, name);
        }
        FileType::Directory => match rustix::fs::mkdirat(&new, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        },
        _ => {
            let mode = Mode::from_raw_mode(0o444);
            rustix::fs::mknodat(&new, name, FileType::RegularFile, mode, 0)?;
        }
    }
    attach(clone_tree(CWD, &path, grant_attributes(false))?, new, name)
}

fn relative(path: &str) -> &str {
    path.trim_start_matches('/')
}
