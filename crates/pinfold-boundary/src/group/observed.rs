//! Control groups that somebody else has made.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

use super::version_1::hierarchy;
use super::{Group, MOUNTED};

/// The groups of a process.
struct Of {
    listed: String,
    unified: bool,
}

impl Of {
    fn read(process: Pid) -> Option<Self> {
        let listed = pinfold_init::kernel_text(format!("/proc/{process}/cgroup")).ok()?;
        let unified = Path::new(MOUNTED).join("cgroup.controllers").exists();
        Some(Self { listed, unified })
    }

    /// Returns the one that a controller goes by.
    fn directory(&self, controller: &str) -> Option<PathBuf> {
        if !self.unified {
            return hierarchy(&self.listed, controller);
        }
        let path = self.listed.lines().find_map(|line| line.strip_prefix("0::/"))?;
        Some(Path::new(MOUNTED).join(path))
    }
}

impl Group {
    /// Returns the group of a container, whose first process this is, if the kernel holds it to so many
    /// bytes of memory.
    pub(crate) fn of_container(init: Pid, most: u64) -> Option<Self> {
        let of = Of::read(init)?;
        let directory = of.directory("memory")?;
        let file = if of.unified { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = fs::read_to_string(directory.join(file)).ok()?;
        let holds = limit.trim().parse::<u64>().is_ok_and(|limit| limit <= most);
        let (directories, unified) = (vec![directory], of.unified);
        let (descriptor, pids, shares, is_own) = (None, false, false, false);
        let group = Self { directories, unified, descriptor, memory: true, pids, shares, is_own };
        holds.then_some(group)
    }
}

/// Returns whether the kernel holds this process, by its group or one above, to so many thousandths of a
/// CPU.
pub(crate) fn holds_cpus(process: Pid, most: u32) -> bool {
    let Some(of) = Of::read(process) else { return false };
    let Some(directory) = of.directory("cpu") else { return false };
    let read = |at: &Path, name: &str| fs::read_to_string(at.join(name)).unwrap_or_default();
    directory.ancestors().take_while(|at| at.starts_with(MOUNTED)).any(|at| {
        if of.unified {
            is_share(&read(at, "cpu.max"), most)
        } else {
            let quota = read(at, "cpu.cfs_quota_us");
            is_share(&format!("{} {}", quota.trim(), read(at, "cpu.cfs_period_us")), most)
        }
    })
}

/// Returns whether a quota in a period, both in microseconds, is so many thousandths or less. None is
/// `max` in version 2 and -1 in version 1.
fn is_share(said: &str, most: u32) -> bool {
    let mut numbers = said.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(quota)), Some(Ok(period))) => {
            u128::from(quota) * 1000 <= u128::from(period) * u128::from(most)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_share;

    #[test]
    fn a_share_is_what_is_bounded_so_or_more() {
        assert!(is_share("150000 100000\n", 1500));
        assert!(is_share("100000 100000", 1500));
        assert!(!is_share("150001 100000", 1500));
        for none in ["max 100000", "-1 100000", "", "100000", "no 100000"] {
            assert!(!is_share(none, 4_000_000), "{none:?}");
        }
    }
}
