//! Podman without root: its locks, and the processes that outlive `podman run`.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Keeps locks below Podman's run-time directory (containers.conf(5)). By default they lie in a file in /dev/shm that
/// all containers of a user share: a container whose storage is deleted holds one of 2048 locks until the next boot.
pub(crate) const OWN_LOCKS: &str = "[engine]\nlock_type = \"file\"\n";

/// How long the clean-up after containers may take on a busy machine. Deleting their directories earlier makes it wait
/// for files that never come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of the process that keeps the user namespace alive, one for each run-time directory.
const PAUSE: &str = "podman pause";

struct Process {
    pid: Pid,
    name: String,
}

impl Process {
    fn kill(&self) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
    }
}

/// Waits until Podman has cleaned up after the containers of a directory, and ends its pause process. Call this before
/// deleting the directory.
pub(crate) fn end_podman(directory: &Path) {
    let begun = Instant::now();
    let directory = directory.display().to_string();
    loop {
        let (pauses, busy): (Vec<_>, Vec<_>) =
            processes_of(&directory).into_iter().partition(|process| process.name == PAUSE);
        if busy.is_empty() {
            return pauses.iter().for_each(Process::kill);
        }
        if begun.elapsed() > PATIENCE {
            let names: Vec<_> = busy.iter().map(|process| process.name.as_str()).collect();
            eprintln!("killed after {PATIENCE:?}, in {directory}: {}", names.join(", "));
            return pauses.iter().chain(&busy).for_each(Process::kill);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Podman's processes that have a directory in their arguments or environment.
fn processes_of(directory: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let read = |name| fs::read(entry.path().join(name)).unwrap_or_default();
        let name = String::from_utf8_lossy(&read("comm")).trim_end().to_owned();
        if !["conmon", "podman", PAUSE].contains(&name.as_str()) {
            return None;
        }
        let has_directory = |text: Vec<u8>| {
            text.windows(directory.len()).any(|window| window == directory.as_bytes())
        };
        let is_of = has_directory(read("cmdline")) || has_directory(read("environ"));
        is_of.then_some(Process { pid, name })
    };
    entries.filter_map(process).collect()
}
