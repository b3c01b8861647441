//! Processes that belong to a directory of a test.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// A process of this machine.
pub(crate) struct Process {
    pid: Pid,
    /// Its name, at most 15 bytes (proc_pid_comm(5)).
    pub(crate) name: String,
}

impl Process {
    pub(crate) fn kill(&self) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
    }
}

/// Returns the processes with these names that have a directory in their arguments or environment.
pub(crate) fn processes_of(directory: &Path, is_meant: impl Fn(&str) -> bool) -> Vec<Process> {
    let directory = directory.as_os_str().as_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
        let name = String::from_utf8_lossy(&read("comm")).trim_end().to_owned();
        if !is_meant(&name) {
            return None;
        }
        let has_directory =
            |text: Vec<u8>| text.windows(directory.len()).any(|window| window == directory);
        let is_of = has_directory(read("cmdline")) || has_directory(read("environ"));
        is_of.then_some(Process { pid, name })
    };
    entries.filter_map(process).collect()
}
