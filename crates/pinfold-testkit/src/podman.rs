//! Podman without root: its locks, and the processes that outlive `podman run`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::processes::{Process, processes_of};

/// Keeps locks below Podman's run-time directory (containers.conf(5)). By default they lie in a file in /dev/shm that
/// all containers of a user share: a container whose storage is deleted holds one of 2048 locks until the next boot.
pub(crate) const OWN_LOCKS: &str = "[engine]\nlock_type = \"file\"\n";

/// How long the clean-up after containers may take on a busy machine. Deleting their directories earlier makes it wait
/// for files that never come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The name of the process that keeps the user namespace alive, one for each run-time directory.
const PAUSE: &str = "podman pause";

/// Returns whether a process of Podman's runs for a directory.
#[must_use]
pub fn runs_podman(directory: &Path) -> bool {
    !processes_of(directory, |name| ["podman", PAUSE].contains(&name)).is_empty()
}

/// Waits until Podman has cleaned up after the containers of a directory, and ends its pause process. Call this before
/// deleting the directory.
pub fn end_podman(directory: &Path) {
    let begun = Instant::now();
    let is_podman = |name: &str| ["conmon", "podman", PAUSE].contains(&name);
    loop {
        let (pauses, busy): (Vec<_>, Vec<_>) = processes_of(directory, is_podman)
            .into_iter()
            .partition(|process| process.name == PAUSE);
        if busy.is_empty() {
            return pauses.iter().for_each(Process::kill);
        }
        if begun.elapsed() > PATIENCE {
            let names: Vec<_> = busy.iter().map(|process| process.name.as_str()).collect();
            eprintln!(
                "killed after {PATIENCE:?}, in {}: {}",
                directory.display(),
                names.join(", ")
            );
            return pauses.iter().chain(&busy).for_each(Process::kill);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
