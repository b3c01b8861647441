//! Version 2: one hierarchy (the kernel's `Documentation/admin-guide/cgroup-v2.rst`).
//!
//! A group that has processes hands no controllers on to groups below it. So the group that bounds
//! a sandbox has no processes of its own. The sandbox is in a group below it, next to groups for
//! parts with limits of their own. Controllers are handed on once something needs them.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{Group, MOUNTED, PERIOD, counted, make_directory, quota};
use crate::plan::ResourceLimits;

/// The group of a sandbox's own processes, below the one that bounds it.
const MAIN: &str = "main";

/// Returns a sibling of the caller's group, in the first ancestor that hands on what is needed and lets
/// the caller make groups.
pub(super) fn next_to_own(own: &str, limits: &ResourceLimits) -> Option<Group> {
    let mut parents = parents(own).filter(|parent| hands_on(parent, limits));
    parents.find_map(|parent| bounded(&parent, limits))
}

/// Returns the groups in which a sibling of the caller's group, or of one above it, would be.
pub(super) fn parents(own: &str) -> impl Iterator<Item = PathBuf> {
    let is_mounted = Path::new(MOUNTED).join("cgroup.controllers").exists();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).filter(|_| is_mounted);
    let own = path.map(|path| Path::new(MOUNTED).join(path)).unwrap_or_default();
    let parents = own.ancestors().skip(1).take_while(|parent| parent.starts_with(MOUNTED));
    parents.map(Path::to_owned).collect::<Vec<_>>().into_iter()
}

/// Returns the same with a group in it to be born in.
pub(super) fn with_main(mut group: Group) -> Option<Group> {
    let main = group.directories.first()?.join(MAIN);
    fs::create_dir(&main).ok()?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    group.descriptor = Some(rustix::fs::open(&main, flags, Mode::empty()).ok()?);
    Some(group)
}

/// Returns a group in one that bounds a sandbox.
pub(super) fn below(whole: &Path, limits: &ResourceLimits) -> Option<Group> {
    for controller in needed(limits) {
        let control = whole.join("cgroup.subtree_control");
        fs::write(control, format!("+{controller}")).ok()?;
    }
    bounded(whole, limits)
}

fn bounded(parent: &Path, limits: &ResourceLimits) -> Option<Group> {
    let directory = make_directory(parent)?;
    let group = Group {
        directories: vec![directory.clone()],
        unified: true,
        descriptor: None,
        memory: limits.memory.is_some(),
        pids: limits.pids.is_some(),
        shares: limits.cpus.is_some(),
        is_own: true,
    };
    let set = |name: &str, value: Option<String>| match value {
        Some(value) => fs::write(directory.join(name), value),
        None => Ok(()),
    };
    set("memory.max", limits.memory.map(|bytes| bytes.to_string())).ok()?;
    // Not every kernel has these two: without them the limit still holds.
    let _ = set("memory.swap.max", limits.memory.map(|_| "0".to_owned()));
    let _ = set("memory.oom.group", limits.memory.map(|_| "1".to_owned()));
    set("pids.max", limits.pids.map(|count| count.to_string())).ok()?;
    set("cpu.max", limits.cpus.map(|share| format!("{} {PERIOD}", quota(share)))).ok()?;
    Some(group)
}

fn needed(limits: &ResourceLimits) -> impl Iterator<Item = &'static str> {
    [
        ("memory", limits.memory.is_some()),
        ("pids", limits.pids.is_some()),
        ("cpu", limits.cpus.is_some()),
    ]
    .into_iter()
    .filter_map(|(controller, wanted)| wanted.then_some(controller))
}

/// Returns whether groups below this one have the controllers that are needed.
fn hands_on(parent: &Path, limits: &ResourceLimits) -> bool {
    let handed = fs::read_to_string(parent.join("cgroup.subtree_control")).unwrap_or_default();
    needed(limits).all(|controller| handed.split_whitespace().any(|word| word == controller))
}

/// Returns whether the kernel has killed something for lack of memory of this group, and not of one
/// below or above it.
pub(super) fn is_out_of_memory(group: &Path) -> bool {
    counted(group, "memory.events.local", "oom") && counted(group, "memory.events", "oom_kill")
}

/// Returns whether it has killed something here, though the group has not once reached its own limit.
pub(super) fn has_suffered(group: &Path) -> bool {
    !counted(group, "memory.events.local", "oom") && counted(group, "memory.events", "oom_kill")
}

/// Returns whether it has refused a task for the limit of this group. Before Linux 6.11 that is counted
/// where the task would have been, and nowhere else.
pub(super) fn has_refused(group: &Path) -> bool {
    let local = "pids.events.local";
    if group.join(local).exists() {
        counted(group, local, "max")
    } else {
        [group, &group.join(MAIN)].iter().any(|at| counted(at, "pids.events", "max"))
    }
}
