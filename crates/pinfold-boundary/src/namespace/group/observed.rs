//! Control groups that somebody else has made.

use std::fs;
use std::path::Path;

use rustix::process::Pid;

use super::{Group, MOUNTED, hierarchy};

impl Group {
    /// The group of a container, whose first process this is, if the kernel holds it to so many bytes
    /// of memory.
    pub(crate) fn of_container(init: Pid, most: u64) -> Option<Self> {
        let of = fs::read_to_string(format!("/proc/{init}/cgroup")).ok()?;
        let unified = Path::new(MOUNTED).join("cgroup.controllers").exists();
        let (directory, file) = match unified {
            true => {
                let path = of.lines().find_map(|line| line.strip_prefix("0::/"))?;
                (Path::new(MOUNTED).join(path), "memory.max")
            }
            false => (hierarchy(&of, "memory")?, "memory.limit_in_bytes"),
        };
        let limit = fs::read_to_string(directory.join(file)).ok()?;
        let holds = limit.trim().parse::<u64>().is_ok_and(|limit| limit <= most);
        let directories = vec![directory];
        let (descriptor, pids, shares, is_own) = (None, false, false, false);
        let group = Self { directories, unified, descriptor, memory: true, pids, shares, is_own };
        holds.then_some(group)
    }
}
