//! What a tree has of a kernel: its /proc and devices, or places for another kernel's.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use super::{Kind, NO_EXEC, Root, inside};
use crate::namespace::detached::{
    NO_DEVICES, NO_SUID, READ_ONLY, attach, clone_tree, new_filesystem,
};
use crate::plan::{Entry, LaunchPlan, Place};
use crate::sys;

/// A device on a read-only mount is written to as usual; its times and modes, which are the host's,
/// stay.
const DEVICE: u64 = READ_ONLY | NO_SUID | NO_EXEC;

/// Devices that a program may expect (hier(7)); none of them holds state.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

const LINKS: [(&str, &str); 5] = [
    ("dev/fd", "/proc/self/fd"),
    ("dev/stdin", "/proc/self/fd/0"),
    ("dev/stdout", "/proc/self/fd/1"),
    ("dev/stderr", "/proc/self/fd/2"),
    ("dev/ptmx", "pts/ptmx"),
];

/// Files of the kernel's that are not of one process and that anybody may open for writing: sealed.
pub(crate) const SEALED_KERNEL_FILES: [&str; 2] = ["proc/sys", "proc/pressure"];
/// Files that show a host's addresses where it lets users profile the kernel
/// (`kernel.perf_event_paranoid` below 2), and the names of all keys of the user's (keyrings(7)).
pub(crate) const HIDDEN_KERNEL_FILES: [&str; 4] =
    ["proc/kallsyms", "proc/modules", "proc/keys", "proc/key-users"];

/// Where nested sandboxes have a second `/proc`, without seals: a namespace that is made inside gets a `/proc` of its own only
/// where one shows everything (`mount_too_revealing`, fs/namespace.c). What seals hide can be seen there anyway.
pub(in crate::namespace) const NESTED_PROC: &str = "run/pinfold/nested/proc";

impl Root {
    /// Makes directories for what another kernel mounts: nothing of this one's is in the tree.
    pub(super) fn make_places(&self, plan: &LaunchPlan) -> Result<(), Errno> {
        let is_private = |entry: &&Entry| matches!(entry.place, Place::Private);
        let private = plan.tree.iter().filter(is_private).map(|entry| inside(entry.path.as_path()));
        for path in ["dev", "proc", "sys"].into_iter().map(Path::new).chain(private) {
            self.directory(path)?;
        }
        Ok(())
    }

    /// Mounts what this kernel offers, as far as it is of use and harmless.
    pub(super) fn mount_kernel_files(&self, plan: &LaunchPlan) -> Result<(), Errno> {
        let proc = || new_filesystem("proc", &[], NO_SUID | NO_DEVICES | NO_EXEC);
        self.put(proc()?, "proc".as_ref(), Kind::Directory)?;
        self.mount_devices()?;
        self.seal_kernel_files()?;
        if plan.nested {
            self.put(proc()?, NESTED_PROC.as_ref(), Kind::Directory)?;
        }
        Ok(())
    }

    fn seal_kernel_files(&self) -> Result<(), Errno> {
        for name in SEALED_KERNEL_FILES.iter().chain(&HIDDEN_KERNEL_FILES) {
            match self.resolve(name.as_ref()) {
                Ok(place) if HIDDEN_KERNEL_FILES.contains(name) => self.close(place)?,
                Ok(place) => self.mask_with_itself(place, true)?,
                // Not every kernel has each of them.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn mount_devices(&self) -> Result<(), Errno> {
        self.put_devices(usual_devices()?)
    }

    fn put_devices(&self, devices: Vec<(&str, OwnedFd)>) -> Result<(), Errno> {
        for (name, device) in devices {
            self.put(device, &Path::new("dev").join(name), Kind::File)?;
        }
        let options = [("ptmxmode", "0666"), ("mode", "0620")];
        let terminals = new_filesystem("devpts", &options, NO_SUID | NO_EXEC)?;
        self.put(terminals, "dev/pts".as_ref(), Kind::Directory)?;
        for (path, to) in LINKS {
            rustix::fs::symlinkat(to, &self.root, path)?;
        }
        Ok(())
    }

    /// Leaves of a guest's kernel what a sandbox has of one, in the mount namespace of this process, which is root of the
    /// guest and has mounted a `/proc` of its own. For nested sandboxes that `/proc` has no seals, without which they can have
    /// their own: what it shows is the guest's, and what seals hide can be seen in theirs anyway.
    ///
    /// # Errors
    /// Returns the error of the mount calls.
    pub(crate) fn narrow_kernel_files(is_nested: bool) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = Self::of(rustix::fs::open("/", flags, Mode::empty())?);
        // What lies over the directory hides them.
        let devices = usual_devices()?;
        let shared = clone_tree(rustix::fs::CWD, "/dev/shm", NO_SUID | NO_DEVICES)?;
        let options = [("mode", "0755"), ("size", "64k")];
        let directory = new_filesystem("tmpfs", &options, NO_SUID | NO_EXEC)?;
        attach(&directory, rustix::fs::CWD, "/dev")?;
        root.put_devices(devices)?;
        root.put(shared, "dev/shm".as_ref(), Kind::Directory)?;
        sys::mount_setattr(directory.as_fd(), false, &sys::attributes(READ_ONLY, 0))?;
        rustix::mount::unmount("/sys", UnmountFlags::DETACH)?;
        if is_nested { show_no_groups() } else { root.seal_kernel_files() }
    }
}

/// Makes the directory of control groups, empty: rootless Podman ends if it is missing (statfs(2)).
fn show_no_groups() -> Result<(), Errno> {
    let options = [("mode", "0755"), ("size", "64k")];
    let system = new_filesystem("tmpfs", &options, NO_SUID | NO_DEVICES | NO_EXEC)?;
    attach(&system, rustix::fs::CWD, "/sys")?;
    for path in ["/sys/fs", "/sys/fs/cgroup"] {
        rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))?;
    }
    sys::mount_setattr(system.as_fd(), false, &sys::attributes(READ_ONLY, 0))
}

/// Clones the devices that a program may expect to mounts on which nothing of them can be changed.
fn usual_devices() -> Result<Vec<(&'static str, OwnedFd)>, Errno> {
    let clone = |name: &'static str| {
        Ok((name, clone_tree(rustix::fs::CWD, Path::new("/dev").join(name), DEVICE)?))
    };
    DEVICES.into_iter().map(clone).collect()
}
