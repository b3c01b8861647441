//! Processes that rootless Podman leaves behind.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::processes_with;

/// Waits for the processes that clean up containers below `place`, then ends the pause process.
///
/// Podman has one pause process for each directory of run-time files. It keeps the user namespace alive.
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
