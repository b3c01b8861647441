//! The control group of a guest's session.
//!
//! It may hold less than the machine has, so that its own limit is reached before the kernel has nothing left for what
//! reports that. The kernel then ends all of the session at once, and counts it. The file system of groups is mounted at
//! no path, so no program of the session finds it.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// What is left to the guest's first process and to the kernel, in bytes: the channel buffers some MiB at most.
const RESERVE: u64 = 24 << 20;
/// Programs may need as much, however little is left.
const LEAST: u64 = 32 << 20;
/// What any file of the kernel's that is read here holds at most.
const LONGEST: usize = 4096;

/// The group of all processes of a session.
#[derive(Debug)]
pub(super) struct SessionGroup {
    whole: OwnedFd,
    /// The group that init is born in. One that has processes hands no controllers on (cgroups(7)).
    main: OwnedFd,
}

impl SessionGroup {
    /// Makes the group, or nothing where the kernel has no groups of version 2 that count memory.
    ///
    /// # Errors
    /// Returns the error of a kernel that has them and does not let root make one.
    pub(super) fn make() -> Result<Option<Self>, Errno> {
        let context = match rustix::mount::fsopen("cgroup2", FsOpenFlags::FSOPEN_CLOEXEC) {
            Err(Errno::NODEV) => return Ok(None),
            context => context?,
        };
        rustix::mount::fsconfig_create(&context)?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
        if !read(&root, "cgroup.controllers")?.split_whitespace().any(|name| name == "memory") {
            return Ok(None);
        }
        write(&root, "cgroup.subtree_control", "+memory")?;
        let whole = make_directory(&root, "session")?;
        write(&whole, "memory.max", &most().to_string())?;
        write(&whole, "memory.oom.group", "1")?;
        let main = make_directory(&whole, "main")?;
        Ok(Some(Self { whole, main }))
    }

    /// Returns the directory of the group that init is born in.
    pub(super) fn main(&self) -> BorrowedFd<'_> {
        self.main.as_fd()
    }

    /// Returns whether the kernel has ended processes of it for want of memory.
    pub(super) fn has_run_out(&self) -> bool {
        read(&self.whole, "memory.events").is_ok_and(|events| has_killed(&events))
    }
}

/// Returns what a session may hold, of what is there now.
fn most() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    number.map_or(LEAST, |kibibytes| (kibibytes << 10).saturating_sub(RESERVE).max(LEAST))
}

/// Returns whether `memory.events` counts a process that was killed (Documentation/admin-guide/cgroup-v2.rst).
fn has_killed(events: &str) -> bool {
    let count = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.is_some_and(|count| count.trim() != "0")
}

fn make_directory(parent: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn read(directory: &OwnedFd, name: &str) -> Result<String, Errno> {
    let file =
        rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = vec![0; LONGEST];
    let length = rustix::io::read(&file, &mut text)?;
    text.truncate(length);
    String::from_utf8(text).map_err(|_| Errno::ILSEQ)
}

fn write(directory: &OwnedFd, name: &str, value: &str) -> Result<(), Errno> {
    let file =
        rustix::fs::openat(directory, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, value.as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::has_killed;

    #[test]
    fn a_kill_for_want_of_memory_is_seen_among_the_events() {
        let events = |kills: u32| {
            format!("low 0\nhigh 0\nmax 91\noom 1\noom_kill {kills}\noom_group_kill 0\n")
        };
        assert!(has_killed(&events(3)));
        assert!(!has_killed(&events(0)));
        assert!(!has_killed(""));
    }
}
