//! What an inside inherits from the process that makes it, beyond its plan.
//!
//! A run that takes a prepared inside must not thereby get more than it has itself, nor lose what
//! its caller set for it: `nice`, `ulimit`, another control group, another container.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use pinfold_boundary::kernel_text;

/// Lines of /proc/[pid]/status that an inside inherits (proc_pid_status(5)): who it is, what it may
/// do, and where it may run. A process that is confined more than the keeper differs in the last
/// five.
const STATUS: [&str; 17] = [
    "Umask:",
    "Uid:",
    "Gid:",
    "Groups:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "Cpus_allowed:",
    "Mems_allowed:",
    "THP_enabled:",
    "NoNewPrivs:",
    "Seccomp:",
    "Seccomp_filters:",
    "Speculation_Store_Bypass:",
    "SpeculationIndirectBranch:",
];

/// Namespaces (namespaces(7)). Those for a process's children differ where it has changed its own.
const NAMESPACES: [&str; 10] = [
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid",
    "pid_for_children",
    "time",
    "time_for_children",
    "user",
    "uts",
];

/// Fields of /proc/[pid]/stat, counted from the name on (proc_pid_stat(5)): nice(2), and sched(7)'s
/// real-time priority and policy.
const SCHEDULING: [usize; 3] = [17, 38, 39];

/// Which control groups count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// Those that the process is in: the inside is in them too, or below.
    Own,
    /// Those above: the inside has a group of its own beside the process's (cgroups(7), version 2).
    /// Each window of a terminal has one, too.
    Beside,
}

/// What a process hands on to what it makes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ambience(String);

impl Ambience {
    /// Of this process ("self"), or of another one of the same user.
    ///
    /// # Errors
    /// A process that is gone or that cannot be looked at.
    pub(super) fn of(process: &str, groups: Groups) -> io::Result<Self> {
        let proc = |file: &str| format!("/proc/{process}/{file}");
        let mut found = String::new();
        let mut add = |name: &str, value: &str| {
            found.push_str(name);
            found.push('\n');
            found.push_str(value);
            found.push('\n');
        };
        let status = kernel_text(proc("status"))?;
        for line in status.lines().filter(|line| STATUS.iter().any(|key| line.starts_with(key))) {
            add("status", line);
        }
        let stat = kernel_text(proc("stat"))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
        for index in SCHEDULING {
            add("scheduling", fields.get(index).copied().unwrap_or_default());
        }
        for file in ["limits", "oom_score_adj"] {
            add(file, &kernel_text(proc(file))?);
        }
        for line in kernel_text(proc("cgroup"))?.lines() {
            let group = match groups {
                Groups::Beside => line.rsplit_once('/').map_or(line, |(parent, _)| parent),
                Groups::Own => line,
            };
            add("cgroup", group);
        }
        // Without a security module there is nothing to read.
        add("label", &kernel_text(proc("attr/current")).unwrap_or_default());
        for name in NAMESPACES {
            // An older kernel has fewer.
            let namespace = fs::read_link(proc(&format!("ns/{name}"))).unwrap_or_default();
            add(name, &namespace.to_string_lossy());
        }
        for link in ["exe", "root"] {
            let metadata = fs::metadata(proc(link))?;
            add(link, &format!("{}:{}", metadata.dev(), metadata.ino()));
        }
        Ok(Self(found))
    }
}

#[cfg(test)]
mod tests;
