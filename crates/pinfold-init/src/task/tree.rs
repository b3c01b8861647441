//! Everything below a process, as proc(5) tells.

use std::fs;

use rustix::process::{Pid, Signal};

/// Kills every process below this one that there is at present, but for the one that is spared. What is
/// forked meanwhile is below it, too, and is for the next time.
pub(super) fn kill_below(root: Pid, spared: Option<Pid>) {
    let all = parents();
    let mut found = of(root, &all);
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(of(pid, &all));
        next += 1;
    }
    for pid in found.into_iter().filter(|pid| Some(*pid) != spared) {
        // One that has gone by itself is as well.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// The children of a process; none of one that is gone.
pub(super) fn children(pid: Pid) -> Vec<Pid> {
    of(pid, &parents())
}

fn of(parent: Pid, all: &[(Pid, Pid)]) -> Vec<Pid> {
    all.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid).collect()
}

/// Every process with its parent. Not by lists of children (/proc/[pid]/task/[tid]/children), which
/// gVisor's kernel does not have.
fn parents() -> Vec<(Pid, Pid)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
        Some((Pid::from_raw(pid)?, Pid::from_raw(parent_in(&stat)?)?))
    })
    .collect()
}

/// The fourth field. The second may hold anything, parentheses and bytes that are no text among them; none
/// after it does.
fn parent_in(stat: &[u8]) -> Option<i32> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let rest = str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parent_in;

    #[test]
    fn the_parent_is_read_whatever_the_name_is() {
        assert_eq!(parent_in(b"7 (sh) S 3 7 7 0"), Some(3));
        assert_eq!(parent_in(b"7 (a) R 9 (\xff) S 3 7"), Some(3));
        assert_eq!(parent_in(b"7 (sh"), None);
    }
}
