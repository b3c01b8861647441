//! What Podman without root leaves running when the directories that it uses go.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::processes_with;

/// Waits for what cleans up after containers below a directory, and ends the process that keeps the user's
/// namespace, of which there is one for each directory of run-time files.
pub(crate) fn end_podman(place: &Path, runtime: &Path) {
    let begun = Instant::now();
    let place = place.display().to_string();
    while !processes_with(&place).is_empty() && begun.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let kept = fs::read_to_string(runtime.join("libpod/tmp/pause.pid")).unwrap_or_default();
    if let Some(pid) = kept.trim().parse().ok().and_then(Pid::from_raw) {
        // One that has gone is what was wanted.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}
