//! Control groups: limits on the whole tree, where a group can be made (cgroups(7)).
//!
//! Version 2: next to the caller's own group, in the first ancestor that hands its controllers on
//! and lets the caller make groups. Version 1: below the caller's own group in each hierarchy. A
//! caller who may do neither gets what rlimits and init's watch can do.

mod observed;
mod version_1;
mod version_2;

pub(crate) use observed::holds_cpus;
pub(crate) use version_1::join;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Mode, OFlags};

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

/// The control groups of one sandbox; dropping removes them if they are pinfold's own.
#[derive(Debug)]
pub struct Group {
    /// One directory in version 2, one for each controller in version 1.
    directories: Vec<PathBuf>,
    unified: bool,
    /// Set in version 2: the child is born in it, which lies below.
    descriptor: Option<OwnedFd>,
    memory: bool,
    pids: bool,
    shares: bool,
    /// Whether pinfold has made them.
    is_own: bool,
}

impl Group {
    /// Makes the groups that these limits need, if the caller may. A CPU share that is not required
    /// is left out where it is not available.
    ///
    /// # Errors
    /// Returns an error for a required CPU share that no group can enforce: nothing else could.
    pub(crate) fn make(limits: &ResourceLimits) -> Result<Option<Self>, LaunchError> {
        let own = pinfold_init::kernel_text("/proc/self/cgroup").unwrap_or_default();
        // Wherever a session with other limits may have left some.
        version_2::parents(&own).chain(version_1::parents(&own)).for_each(|at| remove_stale(&at));
        let wanted = limits.memory.is_some() || limits.pids.is_some() || limits.cpus.is_some();
        if !wanted {
            return Ok(None);
        }
        let made = |limits| {
            let unified = version_2::next_to_own(&own, limits).and_then(version_2::with_main);
            unified.or_else(|| version_1::make(&own, &[], limits))
        };
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

    /// Groups for something that runs in a sandbox, below those of the whole, so that it is bounded by
    /// both.
    ///
    /// # Errors
    /// Returns an error for a limit that would not be enforced.
    pub fn of_part(whole: Option<&Self>, limits: &ResourceLimits) -> Result<Self, LaunchError> {
        let own = pinfold_init::kernel_text("/proc/self/cgroup").unwrap_or_default();
        let made = match whole {
            Some(whole) if !whole.is_own => None,
            Some(whole) if whole.unified => {
                whole.directories.first().and_then(|whole| version_2::below(whole, limits))
            }
            Some(whole) => version_1::make(&own, &whole.directories, limits),
            None => {
                version_2::next_to_own(&own, limits).or_else(|| version_1::make(&own, &[], limits))
            }
        };
        let has = |enforced: fn(&Self) -> bool| made.as_ref().is_some_and(enforced);
        let missing = [
            ("cpus", limits.cpus.is_some() && !has(Self::shares_cpus)),
            ("memory", limits.memory.is_some() && !has(Self::bounds_memory)),
            ("pids", limits.pids.is_some() && !has(Self::bounds_pids)),
        ];
        match (missing.into_iter().find(|(_, is)| *is), made) {
            (None, Some(made)) => Ok(made),
            (missing, _) => Err(LaunchError::Limit {
                limit: missing.map_or("one", |(limit, _)| limit),
                cause: match whole {
                    Some(whole) if !whole.is_own => {
                        "a container's control group is its engine's; a limit of the whole session holds"
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
    /// Returns the error of `open(2)`.
    pub fn entrances(&self) -> io::Result<Vec<OwnedFd>> {
        // To the file for threads, for the reason that `join` gives.
        let file = if self.unified { "cgroup.procs" } else { "tasks" };
        let open = |directory: &PathBuf| -> io::Result<OwnedFd> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            Ok(rustix::fs::open(directory.join(file), flags, Mode::empty())?)
        };
        self.directories.iter().map(open).collect()
    }

    /// Returns whether it bounds the CPU time.
    pub(crate) fn shares_cpus(&self) -> bool {
        self.shares
    }

    /// Returns the group to be born in.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Returns the groups that a process has to join by itself, because it cannot be born in them.
    pub(crate) fn to_join(&self) -> Vec<PathBuf> {
        if self.unified { Vec::new() } else { self.directories.clone() }
    }

    /// Returns whether the group bounds the tree's memory.
    pub fn bounds_memory(&self) -> bool {
        self.memory
    }

    /// Returns whether the group bounds the number of tasks.
    pub fn bounds_pids(&self) -> bool {
        self.pids
    }

    /// Returns whether the kernel, when it kills for lack of memory, leaves the rest of the tree: a
    /// version 1 group, and a container's, then has to be looked at.
    pub fn needs_a_look(&self) -> bool {
        self.memory && !(self.unified && self.is_own)
    }

    /// Returns the limit that the group has enforced so far, the deadlier first.
    pub fn exceeded(&self) -> Option<Exceeded> {
        let is_out_of_memory = |group: &PathBuf| {
            if self.unified {
                version_2::is_out_of_memory(group)
            } else {
                version_1::is_out_of_memory(group)
            }
        };
        let has_refused = |group: &PathBuf| {
            if self.unified { version_2::has_refused(group) } else { version_1::has_refused(group) }
        };
        if self.directories.iter().any(is_out_of_memory) {
            return Some(Exceeded::Memory);
        }
        self.directories.iter().any(has_refused).then_some(Exceeded::Pids)
    }

    /// Returns whether something of this part was killed for lack of memory of the whole.
    pub fn suffered(&self) -> bool {
        let has_suffered =
            if self.unified { version_2::has_suffered } else { version_1::has_suffered };
        self.directories.iter().any(|directory| has_suffered(directory))
    }
}

fn counted(group: &Path, file: &str, key: &str) -> bool {
    let text = fs::read_to_string(group.join(file)).unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .any(|(name, count)| name == key && count.trim() != "0")
}

/// Returns the groups of what runs in a sandbox.
fn parts(group: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let is_group = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_group).map(|entry| entry.path())
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

/// Microseconds of CPU time in each period.
fn quota(share: CpuShare) -> u64 {
    u64::from(share.thousandths) * PERIOD / 1000
}

/// Makes a group named after this process.
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
    Some(directory)
}

/// Removes the groups of processes that are gone: of sessions that were killed. One that is in use
/// stays.
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
