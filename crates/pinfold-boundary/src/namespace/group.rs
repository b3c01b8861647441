//! Control groups: limits on the whole tree, where a group can be made (cgroups(7)).
//!
//! Version 2 beside the caller's own group, in the first ancestor that hands its controllers
//! on and lets the caller make groups; version 1 below the caller's own group in each
//! hierarchy. A caller who may do neither gets what rlimits and init's watch can do.

mod observed;

pub(crate) use observed::holds_cpus;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::LaunchError;
use crate::plan::{CpuShare, ResourceLimits};

const MOUNTED: &str = "/sys/fs/cgroup";
const PREFIX: &str = "pinfold-";
/// The period that quotas refer to, in microseconds: the kernel's default.
const PERIOD: u64 = 100_000;

/// A limit that a group has enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exceeded {
    /// Memory: something was killed.
    Memory,
    /// Tasks: a fork was refused.
    Pids,
}

/// The groups of an inside as another process is told of them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HandedGroup {
    directories: Vec<PathBuf>,
    unified: bool,
    memory: bool,
    pids: bool,
    shares: bool,
}

impl From<HandedGroup> for Group {
    fn from(handed: HandedGroup) -> Self {
        let HandedGroup { directories, unified, memory, pids, shares } = handed;
        Self { directories, unified, descriptor: None, memory, pids, shares, is_own: true }
    }
}

/// The control groups of one inside; dropping removes them if they are pinfold's own.
#[derive(Debug)]
pub struct Group {
    /// One directory in version 2, one for each controller in version 1.
    directories: Vec<PathBuf>,
    unified: bool,
    /// Set in version 2: the child is born in it.
    descriptor: Option<OwnedFd>,
    memory: bool,
    pids: bool,
    shares: bool,
    /// Whether pinfold has made them.
    is_own: bool,
}

impl Group {
    /// Makes the groups that these limits need, if the caller may. A CPU share that is not required
    /// is left out where it cannot be had.
    ///
    /// # Errors
    /// A required CPU share that no group can enforce: nothing else could.
    pub(super) fn make(limits: &ResourceLimits) -> Result<Option<Self>, LaunchError> {
        let wanted = limits.memory.is_some() || limits.pids.is_some() || limits.cpus.is_some();
        if !wanted {
            return Ok(None);
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let made =
            |limits| Self::version_2(&own, limits).or_else(|| Self::version_1(&own, &[], limits));
        let group = made(limits);
        let shares = group.as_ref().is_some_and(|group| group.shares);
        match limits.cpus {
            Some(share) if !shares && share.required => {
                let cause = "no control group with the cpu controller can be made by this user";
                Err(LaunchError::Limit { limit: "cpus", cause: cause.to_owned() })
            }
            Some(_) if !shares => {
                drop(group);
                Ok(made(&ResourceLimits { cpus: None, ..*limits }))
            }
            _ => Ok(group),
        }
    }

    /// Groups for something that runs in an inside, below those of the whole, so that it is bounded by
    /// both.
    ///
    /// # Errors
    /// A limit that would not be enforced.
    pub fn of_part(whole: Option<&Self>, limits: &ResourceLimits) -> Result<Self, LaunchError> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let made = match whole {
            // A group with processes hands no controllers on: its processes would have to move.
            Some(whole) if whole.unified || !whole.is_own => None,
            Some(whole) => Self::version_1(&own, &whole.directories, limits),
            None => Self::version_2(&own, limits).or_else(|| Self::version_1(&own, &[], limits)),
        };
        let has = |enforced: fn(&Self) -> bool| made.as_ref().is_some_and(enforced);
        let missing = [
            ("memory", limits.memory.is_some() && !has(Self::bounds_memory)),
            ("pids", limits.pids.is_some() && !has(Self::bounds_pids)),
            ("cpus", limits.cpus.is_some() && !has(Self::shares_cpus)),
        ];
        match (missing.into_iter().find(|(_, is)| *is), made) {
            (None, Some(made)) => Ok(made),
            (missing, _) => Err(LaunchError::Limit {
                limit: missing.map_or("one", |(limit, _)| limit),
                cause: match whole {
                    Some(whole) if !whole.is_own => {
                        "a container's control group is its engine's; a limit of the whole session holds"
                    }
                    Some(whole) if whole.unified => {
                        "a session's control group of version 2 has none below it; a limit of the \
                         whole session holds"
                    }
                    _ => "this user can make no control group below the session's",
                }
                .to_owned(),
            }),
        }
    }

    /// Files by which a process joins the groups, writing 0.
    ///
    /// # Errors
    /// What open(2) says.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        // To the file for threads, for the reason that `join` gives.
        let file = if self.unified { "cgroup.procs" } else { "tasks" };
        let open = |directory: &PathBuf| -> io::Result<OwnedFd> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(directory.join(file), flags, Mode::empty())?)
        };
        self.directories.iter().map(open).collect()
    }

    /// What another process is told of them.
    pub(crate) fn handed(&self) -> HandedGroup {
        let Self { directories, unified, memory, pids, shares, .. } = self;
        let (directories, unified) = (directories.clone(), *unified);
        HandedGroup { directories, unified, memory: *memory, pids: *pids, shares: *shares }
    }

    /// Whether it bounds the CPU time.
    pub(super) fn shares_cpus(&self) -> bool {
        self.shares
    }

    /// Version 2: a sibling of the caller's group, because a group with processes cannot hand
    /// controllers on.
    fn version_2(own: &str, limits: &ResourceLimits) -> Option<Self> {
        let path = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
        let controllers = Path::new(MOUNTED).join("cgroup.controllers");
        if !controllers.exists() {
            return None;
        }
        let needed = needed(limits);
        let own = Path::new(MOUNTED).join(path);
        for parent in own.ancestors().skip(1).take_while(|parent| parent.starts_with(MOUNTED)) {
            let handed = fs::read_to_string(parent.join("cgroup.subtree_control"));
            let handed = handed.unwrap_or_default();
            let has = |controller: &str| handed.split_whitespace().any(|word| word == controller);
            if !needed.iter().all(|controller| has(controller)) {
                continue;
            }
            if let Some(group) = Self::in_parent(parent, limits) {
                return Some(group);
            }
        }
        None
    }

    fn in_parent(parent: &Path, limits: &ResourceLimits) -> Option<Self> {
        let directory = make_directory(parent)?;
        let mut group = Self {
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
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        group.descriptor = Some(rustix::fs::open(&directory, flags, Mode::empty()).ok()?);
        Some(group)
    }

    /// Version 1: in each hierarchy that is needed a child of the one of these groups that lies there,
    /// or of the caller's.
    fn version_1(own: &str, above: &[PathBuf], limits: &ResourceLimits) -> Option<Self> {
        let settings = [
            ("memory", "memory.limit_in_bytes", limits.memory.map(|bytes| bytes.to_string())),
            ("pids", "pids.max", limits.pids.map(|count| count.to_string())),
            ("cpu", "cpu.cfs_quota_us", limits.cpus.map(|share| quota(share).to_string())),
        ];
        let mut group = Self {
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

    /// The group to be born in.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// The groups that a process has to join by itself, because it cannot be born in them.
    pub(super) fn to_join(&self) -> Vec<PathBuf> {
        if self.unified { Vec::new() } else { self.directories.clone() }
    }

    /// Whether it lies beside the group of the process that made it, not below.
    pub fn is_beside(&self) -> bool {
        self.unified
    }

    /// Whether the group bounds the tree's memory.
    pub fn bounds_memory(&self) -> bool {
        self.memory
    }

    /// Whether the group bounds the number of tasks.
    pub fn bounds_pids(&self) -> bool {
        self.pids
    }

    /// Whether the kernel, when it kills for lack of memory, leaves the rest of the tree: a
    /// version 1 group, and a container's, then has to be looked at.
    pub fn needs_a_look(&self) -> bool {
        self.memory && !(self.unified && self.is_own)
    }

    /// The limit that the group has enforced so far, the deadlier first.
    pub fn exceeded(&self) -> Option<Exceeded> {
        let has = |is: fn(&Path) -> bool| self.directories.iter().any(|directory| is(directory));
        if has(killed) || has(|directory| parts(directory).any(|part| killed_for_whole(&part))) {
            Some(Exceeded::Memory)
        } else if has(|directory| counted(directory, "pids.events", "max")) {
            Some(Exceeded::Pids)
        } else {
            None
        }
    }

    /// Whether something of this part was killed for lack of memory of the whole.
    pub fn suffered(&self) -> bool {
        self.directories.iter().any(|directory| killed_for_whole(directory))
    }
}

/// Whether the kernel has killed something in this group for lack of memory. Version 1 counts it where
/// it ran, and not above.
fn killed(group: &Path) -> bool {
    counted(group, "memory.events", "oom_kill") || counted(group, "memory.oom_control", "oom_kill")
}

/// The same, though the group has not once reached its own limit (version 1).
fn killed_for_whole(group: &Path) -> bool {
    let never = fs::read_to_string(group.join("memory.failcnt")).is_ok_and(|n| n.trim() == "0");
    never && killed(group)
}

fn counted(group: &Path, file: &str, key: &str) -> bool {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(name, count)| name == key && count.trim() != "0")
}

/// The groups of what runs in an inside.
fn parts(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_group).map(|entry| entry.path())
}

/// Moves this process, which has one thread, into groups. That it writes 0 for itself, and to the
/// file for threads, is the one way for which the kernel does not stop the forks of the whole
/// machine, which waits for a grace period: milliseconds on a busy one (Linux 5.5,
/// `cgroup_procs_write_start`).
///
/// # Errors
/// The group, with what writing says.
pub(super) fn join(groups: &[PathBuf]) -> Result<(), (&Path, Errno)> {
    groups.iter().try_for_each(|group| {
        let path = group.join("tasks");
        let write = || -> Result<usize, Errno> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::io::write(rustix::fs::open(&path, flags, Mode::empty())?, b"0")
        };
        write().map(drop).map_err(|errno| (group.as_path(), errno))
    })
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in self.directories.iter().filter(|_| self.is_own) {
            remove(directory);
        }
    }
}

/// Removes a group with its parts. One that is still busy is removed by a later start.
fn remove(group: &Path) {
    parts(group).for_each(|part| drop(fs::remove_dir(part)));
    let _ = fs::remove_dir(group);
}

fn needed(limits: &ResourceLimits) -> Vec<&'static str> {
    [
        ("memory", limits.memory.is_some()),
        ("pids", limits.pids.is_some()),
        ("cpu", limits.cpus.is_some()),
    ]
    .into_iter()
    .filter_map(|(controller, wanted)| wanted.then_some(controller))
    .collect()
}

/// Microseconds of CPU time in each period.
fn quota(share: CpuShare) -> u64 {
    u64::from(share.thousandths) * PERIOD / 1000
}

/// The caller's own group in a version 1 hierarchy.
fn hierarchy(own: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let group = Path::new(MOUNTED).join(controller).join(path.trim_start_matches('/'));
    // In a container the path is the host's while the mount shows the own group as its top.
    [group, Path::new(MOUNTED).join(controller)].into_iter().find(|path| path.exists())
}

/// Makes a group named after this process, and removes those whose process is gone.
fn make_directory(parent: &Path) -> Option<PathBuf> {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let directory = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
    match fs::create_dir(&directory) {
        Ok(()) => {}
        // A group of a dead process that had this number; removing it fails if it is in use.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir(&directory).ok()?;
            fs::create_dir(&directory).ok()?;
        }
        Err(_) => return None,
    }
    remove_stale(parent);
    Some(directory)
}

fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        let Some(Ok(pid)) = name.map(|(pid, _)| pid.parse::<i32>()) else { continue };
        let alive = rustix::process::Pid::from_raw(pid).is_none_or(|pid| {
            rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
        });
        if !alive {
            remove(&entry.path());
        }
    }
}
