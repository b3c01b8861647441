//! Shows a session its memory and CPU limits where programs look for them.
//!
//! The kernel shows limits only through the control group file system, and a session's limits need not be those
//! of a group (init watches memory for users without one). So these files are generated once:
//!
//! - `/sys/fs/cgroup`, as the root of a version 2 hierarchy, with the two files of version 1 that libuv reads.
//! - `/proc/cgroups`, which tells the JVM which version to read, where the machine has version 1.
//! - `/proc/meminfo` with the limit as the machine's memory, and `/proc/cpuinfo` with as many CPUs as the share.
//! - `/sys/devices/system/cpu`, which `lscpu` and the C library read, in every session.
//!
//! The JVM and Go look for a mount of type `cgroup2`. There is one, below ours: it shows the names of the
//! caller's other groups, so nothing may reach it.

use std::path::Path;

use pinfold_init::{HOST_MEMINFO, kernel_text};
use rustix::io::Errno;
use rustix::thread::CpuSet;

use super::detached::{NO_DEVICES, NO_SUID, READ_ONLY, clone_tree, new_filesystem};
use super::root::{Kind, NO_EXEC, Root};
use crate::plan::{LaunchPlan, ResourceLimits};

const CGROUPS: &str = "sys/fs/cgroup";
const CPUS: &str = "sys/devices/system/cpu";
/// Where the files lie that are put over the kernel's.
const OWN: &str = "run/pinfold/limits";
/// The period of a CPU share in microseconds, as the kernel's default (cgroups(7), `cpu.max`).
const PERIOD: u64 = 100_000;
/// What version 1 shows where there is no limit: `PAGE_COUNTER_MAX` in bytes.
const NO_LIMIT: u64 = 0x7fff_ffff_ffff_f000;

/// Makes the files. The control group namespace must be the sandbox's own.
///
/// # Errors
/// Returns the error of a mount call or of writing a file.
pub(super) fn show(root: &Root, plan: &LaunchPlan, is_own_wall: bool) -> Result<(), Errno> {
    let limits = &plan.limits;
    let is_granted = |path: &Path| path.starts_with("/sys");
    if !plan.tree.iter().any(|entry| is_granted(entry.path.as_path())) {
        show_cpus(root, limits)?;
        if has_any(limits) {
            show_groups(root, limits, is_own_wall)?;
        }
    }
    // An engine mounts a /proc of its own.
    if is_own_wall && has_any(limits) {
        show_in_proc(root, limits)?;
    }
    Ok(())
}

fn has_any(limits: &ResourceLimits) -> bool {
    limits.memory.is_some() || limits.cpus.is_some()
}

/// Lets this process and its children run on as many CPUs as the share makes up, for programs that count the
/// CPUs they may run on. A control group is what bounds them. The CPUs begin at a random one, so that
/// several sessions do not share the same while others idle.
///
/// # Errors
/// Returns the error of sched_getaffinity(2) or sched_setaffinity(2).
pub(super) fn narrow_cpus(limits: &ResourceLimits) -> Result<(), Errno> {
    let Some(wanted) = whole_cpus(limits) else { return Ok(()) };
    let allowed = rustix::thread::sched_getaffinity(None)?;
    let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    if wanted >= all.len() {
        return Ok(());
    }
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let first = usize::from_ne_bytes(random) % all.len();
    let mut narrowed = CpuSet::new();
    all.iter().cycle().skip(first).take(wanted).for_each(|cpu| narrowed.set(*cpu));
    rustix::thread::sched_setaffinity(None, &narrowed)
}

/// Returns the CPU share in whole CPUs, rounded up.
fn whole_cpus(limits: &ResourceLimits) -> Option<usize> {
    let share = limits.cpus?.thousandths.div_ceil(1000).max(1);
    usize::try_from(share).ok()
}

/// Makes the directory of CPUs. It names as many as the process may run on.
fn show_cpus(root: &Root, limits: &ResourceLimits) -> Result<(), Errno> {
    let count = match whole_cpus(limits) {
        Some(count) => count.min(online()?),
        None => online()?,
    };
    let list = if count > 1 { format!("0-{}\n", count - 1) } else { "0\n".to_owned() };
    for name in ["online", "possible", "present"] {
        root.create(&Path::new(CPUS).join(name), 0o444, list.as_bytes())?;
    }
    // Older C libraries count these.
    for cpu in 0..count {
        root.directory(&Path::new(CPUS).join(format!("cpu{cpu}")))?;
    }
    Ok(())
}

fn online() -> Result<usize, Errno> {
    let allowed = rustix::thread::sched_getaffinity(None)?;
    Ok((allowed.count() as usize).max(1))
}

/// Makes the control group file system, with the kernel's own below it.
fn show_groups(root: &Root, limits: &ResourceLimits, is_own_wall: bool) -> Result<(), Errno> {
    root.directory(CGROUPS.as_ref())?;
    if is_own_wall {
        // Not every kernel has it; then the JVM sees no limit.
        if let Ok(kernels) =
            new_filesystem("cgroup2", &[], READ_ONLY | NO_SUID | NO_DEVICES | NO_EXEC)
        {
            root.put(kernels, CGROUPS.as_ref(), Kind::Directory)?;
        }
    }
    let ours = Path::new(OWN).join("cgroup");
    // Programs look for these by what /proc/self/cgroup lists, which is the kernel's.
    let old = has_version_1().then(|| version_1_files(limits));
    for (name, content) in group_files(limits).into_iter().chain(old.into_iter().flatten()) {
        root.create(&ours.join(name), 0o444, content.as_bytes())?;
    }
    root.mask_with(root.resolve(CGROUPS.as_ref())?, &ours, true)
}

/// Returns whether the machine has control groups of version 1. Its own root must not be left yet.
fn has_version_1() -> bool {
    Path::new("/sys/fs/cgroup/memory").is_dir()
}

/// Returns the files of control groups of version 2 and their content.
fn group_files(limits: &ResourceLimits) -> Vec<(&'static str, String)> {
    let max =
        |limit: Option<u64>| limit.map_or_else(|| "max\n".to_owned(), |most| format!("{most}\n"));
    // Memory is bounded with what is swapped out.
    let swap = max(limits.memory.map(|_| 0));
    vec![
        ("cgroup.controllers", "cpuset cpu memory pids\n".to_owned()),
        ("memory.max", max(limits.memory)),
        ("memory.high", max(None)),
        ("memory.swap.max", swap),
        ("cpu.max", format!("{} {PERIOD}\n", max(quota(limits)).trim_end())),
    ]
}

/// Returns the files of version 1 that libuv reads on machines that have both versions.
fn version_1_files(limits: &ResourceLimits) -> Vec<(&'static str, String)> {
    let quota = quota(limits).map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
    vec![
        ("memory/memory.limit_in_bytes", format!("{}\n", limits.memory.unwrap_or(NO_LIMIT))),
        ("memory/memory.soft_limit_in_bytes", format!("{NO_LIMIT}\n")),
        ("cpu/cpu.cfs_quota_us", format!("{quota}\n")),
        ("cpu/cpu.cfs_period_us", format!("{PERIOD}\n")),
    ]
}

/// Returns the CPU share in microseconds for each period.
fn quota(limits: &ResourceLimits) -> Option<u64> {
    limits.cpus.map(|share| u64::from(share.thousandths) * PERIOD / 1000)
}

/// Masks files of /proc that show the machine's resources.
fn show_in_proc(root: &Root, limits: &ResourceLimits) -> Result<(), Errno> {
    if has_version_1() {
        mask(root, "cgroups", &groups_table())?;
    }
    if let Some(limit) = limits.memory {
        let kernels = kernel_text("/proc/meminfo").map_err(|_| Errno::IO)?;
        // What watches the session needs the machine's own numbers.
        let host = clone_tree(root.resolve("proc/meminfo".as_ref())?, "", READ_ONLY)?;
        let path = HOST_MEMINFO.trim_start_matches('/');
        root.put(host, path.as_ref(), Kind::File)?;
        mask(root, "meminfo", &meminfo(&kernels, limit))?;
    }
    if let Some(count) = whole_cpus(limits) {
        let kernels = kernel_text("/proc/cpuinfo").map_err(|_| Errno::IO)?;
        mask(root, "cpuinfo", &cpuinfo(&kernels, count.min(online()?)))?;
    }
    Ok(())
}

fn mask(root: &Root, name: &str, content: &str) -> Result<(), Errno> {
    let place = match root.resolve(&Path::new("proc").join(name)) {
        // A kernel without control groups.
        Err(Errno::NOENT) => return Ok(()),
        place => place?,
    };
    let own = Path::new(OWN).join(name);
    root.create(&own, 0o444, content.as_bytes())?;
    root.mask_with(place, &own, true)
}

/// Returns /proc/cgroups of a machine where every controller is one of version 2.
fn groups_table() -> String {
    let controllers = ["cpuset", "cpu", "cpuacct", "memory", "pids"];
    let lines = controllers.map(|name| format!("{name}\t0\t1\t1\n"));
    format!("#subsys_name\thierarchy\tnum_cgroups\tenabled\n{}", lines.concat())
}

/// Returns /proc/meminfo of a machine that has as much memory as the limit, of which a little is in use, and no swap.
fn meminfo(kernels: &str, limit: u64) -> String {
    let total = limit / 1024;
    // libuv's tests, and programs that divide by what is in use, expect less than all to be free.
    let free = total - total.div_ceil(256);
    let line = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let value: u64 = rest.split_whitespace().next()?.parse().ok()?;
        let shown = match name {
            "MemTotal" | "CommitLimit" => value.min(total),
            "MemFree" | "MemAvailable" => value.min(free),
            "Hugepagesize" => value,
            _ => 0,
        };
        let unit = if rest.ends_with("kB") { " kB" } else { "" };
        Some(format!("{:<16}{shown:>8}{unit}\n", format!("{name}:")))
    };
    kernels.lines().filter_map(line).collect()
}

/// Returns the first CPUs of /proc/cpuinfo.
fn cpuinfo(kernels: &str, count: usize) -> String {
    kernels.split_inclusive("\n\n").take(count).collect()
}

#[cfg(test)]
mod tests;
