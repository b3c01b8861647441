//! An editor and an agent that are open on the workspace: they execute what appears in their
//! directories at once. This one only looks for what a session must not bring there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Directories of programs that watch them while they are open (ADR 7).
const WATCHED: [&str; 4] = [".vscode", ".cursor", ".zed", ".claude"];
/// How often they are looked at. The kernel notifies an editor, so what is there for a shorter time
/// is seldom seen here.
const STEP: Duration = Duration::from_millis(1);

/// The editor, until it is closed.
pub(super) struct Editor {
    is_closed: Arc<AtomicBool>,
    thread: JoinHandle<BTreeSet<PathBuf>>,
}

impl Editor {
    /// Opens a workspace. `evil` is what nothing in its directories may name.
    pub(super) fn open(work: PathBuf, evil: String) -> Self {
        let is_closed = Arc::new(AtomicBool::new(false));
        let closed = Arc::clone(&is_closed);
        let thread = thread::spawn(move || {
            let mut found = BTreeSet::new();
            while !closed.load(Ordering::Relaxed) {
                for name in WATCHED {
                    look(&work.join(name), &evil, &mut found);
                }
                thread::sleep(STEP);
            }
            found
        });
        Self { is_closed, thread }
    }

    /// Closes it, and returns what it would have executed.
    pub(super) fn close(self) -> Vec<String> {
        self.is_closed.store(true, Ordering::Relaxed);
        let found = self.thread.join().unwrap_or_default();
        found.iter().map(|path| format!("an open editor saw {}", path.display())).collect()
    }
}

fn look(directory: &Path, evil: &str, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && fs::read_to_string(&path).is_ok_and(|text| text.contains(evil)) {
            found.insert(path);
        }
    }
}
