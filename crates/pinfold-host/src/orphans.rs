//! Processes that a program leaves running when it ends.

use std::collections::HashSet;
use std::fs;
use std::os::fd::AsFd as _;

use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getpid, pidfd_open, pidfd_send_signal,
    set_child_subreaper, waitid,
};

/// Calls a function that runs programs to their ends, and then ends what they have left running. Nothing else of this process may
/// start programs in that time.
///
/// A process that has lost its parent becomes this process's child (prctl(2), `PR_SET_CHILD_SUBREAPER`), so a process id that is ended
/// is nobody else's. Where the kernel does not list children, what is left stays.
pub fn end_those_of<T>(run: impl FnOnce() -> T) -> T {
    let before = children();
    let adopts = set_child_subreaper(Some(getpid())).is_ok();
    let result = run();
    if adopts {
        let _ = set_child_subreaper(None);
        children().difference(&before).for_each(|orphan| end(*orphan));
    }
    result
}

/// Returns the children of all threads (proc_pid_task(5), `children`).
fn children() -> HashSet<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| {
            let numbers = list.split_whitespace().map(str::parse);
            numbers.filter_map(|number| Pid::from_raw(number.ok()?)).collect::<Vec<_>>()
        })
        .collect()
}

/// Ends a child, which may have ended already.
fn end(child: Pid) {
    let Ok(process) = pidfd_open(child, PidfdFlags::empty()) else { return };
    let _ = pidfd_send_signal(&process, Signal::KILL);
    let wait = || waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
    let _ = rustix::io::retry_on_intr(wait);
}
