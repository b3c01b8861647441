//! Everything below a process, as proc(5) shows it.

use std::fs;

use rustix::process::{Pid, Signal};

/// Kills every process below this one that there is at present, except the one that is spared.
/// Processes forked since are below it, too, and are left for the next time.
pub(crate) fn kill_below(root: Pid, spared: Option<Pid>) {
    let found = Processes::look().all_below(root);
    for pid in found.into_iter().filter(|pid| Some(*pid) != spared) {
        // One that has gone by itself is as well.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Returns the children of a process; none of one that is gone.
pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    Processes::look().of(pid)
}

/// Every process with its parent.
pub(crate) struct Processes {
    found: Vec<(Pid, Pid)>,
}

impl Processes {
    /// Returns those of now. Not by lists of children (/proc/[pid]/task/[tid]/children), which gVisor's
    /// kernel does not have. A process that cannot be read is left out.
    pub(crate) fn look() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let with_parent = |pid: i32| {
            let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
            Some((Pid::from_raw(pid)?, Pid::from_raw(parent_in(&stat)?)?))
        };
        Self { found: pids.filter_map(with_parent).collect() }
    }

    /// Returns every process below this one, or `None` if no process can be read.
    pub(crate) fn below(&self, root: Pid) -> Option<Vec<u32>> {
        let pids = self.all_below(root).into_iter().map(|pid| pid.as_raw_pid() as u32);
        (!self.found.is_empty()).then(|| pids.collect())
    }

    fn all_below(&self, root: Pid) -> Vec<Pid> {
        let mut found = self.of(root);
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            found.extend(self.of(pid));
            next += 1;
        }
        found
    }

    fn of(&self, parent: Pid) -> Vec<Pid> {
        let children = self.found.iter().filter(|(_, above)| *above == parent);
        children.map(|(pid, _)| *pid).collect()
    }
}

/// Returns the fourth field. The second may hold anything, parentheses and bytes that are no text among
/// them; none after it does.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::{Processes, parent_in};
    use crate::watch::Misnamed;

    #[test]
    fn the_parent_is_read_whatever_the_name_is() {
        assert_eq!(parent_in(b"7 (sh) S 3 7 7 0"), Some(3));
        assert_eq!(parent_in(b"7 (a) R 9 (\xff) S 3 7"), Some(3));
        assert_eq!(parent_in(b"7 (sh"), None);
    }

    #[test]
    fn a_process_whose_name_is_not_utf_8_is_found_below_its_parent() {
        let process = Misnamed::start();
        let below = Processes::look().below(getpid()).unwrap();
        assert!(below.contains(&process.pid()), "{below:?}");
    }
}
