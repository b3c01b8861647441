//! Version 1: a hierarchy for each controller, and a group below the caller's own in each.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Group, MOUNTED, counted, make_directory, parts, quota};
use crate::plan::ResourceLimits;

/// Makes a group in each hierarchy that is needed: a child of the one of these groups that lies there, or of the
/// caller's.
pub(super) fn make(own: &str, above: &[PathBuf], limits: &ResourceLimits) -> Option<Group> {
    let settings = [
        ("memory", "memory.limit_in_bytes", limits.memory.map(|bytes| bytes.to_string())),
        ("pids", "pids.max", limits.pids.map(|count| count.to_string())),
        ("cpu", "cpu.cfs_quota_us", limits.cpus.map(|share| quota(share).to_string())),
    ];
    let mut group = Group {
        directories: Vec::new(),
        unified: false,
        descriptor: None,
        memory: false,
        pids: false,
        shares: false,
        is_own: true,
    };
    for (controller, file, value) in settings {
        let Some(value) = value else { continue };
        let of_it = Path::new(MOUNTED).join(controller);
        let above = above.iter().find(|group| group.starts_with(&of_it)).cloned();
        let Some(hierarchy) = above.or_else(|| hierarchy(own, controller)) else { continue };
        let Some(directory) = make_directory(&hierarchy) else { continue };
        group.directories.push(directory.clone());
        let set = fs::write(directory.join(file), value).is_ok();
        match controller {
            "memory" => group.memory = set,
            "pids" => group.pids = set,
            _ => group.shares = set,
        }
    }
    (!group.directories.is_empty()).then_some(group)
}

/// Returns the groups in which groups of the caller's would be.
pub(super) fn parents(own: &str) -> impl Iterator<Item = PathBuf> {
    ["memory", "pids", "cpu"].into_iter().filter_map(|controller| hierarchy(own, controller))
}

/// Returns the caller's own group in a hierarchy.
pub(super) fn hierarchy(own: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let group = Path::new(MOUNTED).join(controller).join(path.trim_start_matches('/'));
    // In a container the path is the host's while the mount shows the own group as its top.
    [group, Path::new(MOUNTED).join(controller)].into_iter().find(|path| path.exists())
}

/// Moves this process, which has one thread, into groups. That it writes 0 for itself, and to the
/// file for threads, is the one way for which the kernel does not stop the forks of the whole
/// machine, which waits for a grace period: milliseconds on a busy one (Linux 5.5,
/// `cgroup_procs_write_start`).
///
/// # Errors
/// Returns an error for the group, with the error of writing.
pub(crate) fn join(groups: &[PathBuf]) -> Result<(), (&Path, Errno)> {
    groups.iter().try_for_each(|group| {
        let path = group.join("tasks");
        let write = || -> Result<usize, Errno> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::io::write(rustix::fs::open(&path, flags, Mode::empty())?, b"0")
        };
        write().map(drop).map_err(|errno| (group.as_path(), errno))
    })
}

/// Returns whether the kernel has killed something for lack of memory of this group. It counts that
/// where it ran, and not above.
pub(super) fn is_out_of_memory(group: &Path) -> bool {
    has_killed(group) || parts(group).any(|part| has_suffered(&part))
}

/// Returns whether it has killed something here, though the group has not once reached its own limit.
pub(super) fn has_suffered(group: &Path) -> bool {
    let never = fs::read_to_string(group.join("memory.failcnt")).is_ok_and(|n| n.trim() == "0");
    never && has_killed(group)
}

/// Returns whether it has refused a task here.
pub(super) fn has_refused(group: &Path) -> bool {
    counted(group, "pids.events", "max")
}

fn has_killed(group: &Path) -> bool {
    counted(group, "memory.oom_control", "oom_kill")
}
