//! Everything below a process, as proc(5) tells.

use std::fs;

use rustix::process::{Pid, Signal};

/// Kills every process below this one that there is at present. What is forked meanwhile is below
/// it, too, and is for the next time.
pub(super) fn kill_below(root: Pid) {
    let mut found = children(root);
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        found.extend(children(pid));
        next += 1;
    }
    for pid in found {
        // One that has gone by itself is as well.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// The children of all threads of a process (/proc/[pid]/task/[tid]/children); none of one that
/// is gone.
pub(super) fn children(pid: Pid) -> Vec<Pid> {
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    let threads = threads.into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let lists: Vec<String> = lists.flatten().collect();
    let words = lists.iter().flat_map(|list| list.split_whitespace());
    words.filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect()
}
