//! Programs on the host that change repositories for a session, and may outlive its supervisor.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::{SessionState, lock};
use crate::launcher;

/// Locked by the programs on the host that change repositories for the session.
const PROGRAMS: &str = "programs";

/// The lock of [`wait_for_programs`].
#[derive(Debug)]
pub struct Programs {
    _lock: Option<Arc<File>>,
}

/// Waits for the programs that a dead session started on the host; `private` is its directory. While
/// the lock is held, programs that are started hold it, too. None if the waiting was over before.
pub fn wait_for_programs(private: &Path, is_over: &dyn Fn() -> bool) -> Option<Programs> {
    /// Between two attempts.
    const STEP: Duration = Duration::from_millis(20);
    loop {
        match lock(&private.join(PROGRAMS), FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(locked) => {
                let locked = Arc::new(locked);
                launcher::lend(&locked);
                return Some(Programs { _lock: Some(locked) });
            }
            // Where there is no directory, nothing was started.
            Err(_) => return Some(Programs { _lock: None }),
        }
        if is_over() {
            return None;
        }
        std::thread::sleep(STEP);
    }
}

impl SessionState {
    /// Has the programs that change repositories for the session hold a lock. If the supervisor is
    /// killed, they go on, and the next start waits for them ([`wait_for_programs`]).
    ///
    /// # Errors
    /// Returns the file system's error, with the path.
    pub fn lend_lock(&mut self) -> io::Result<()> {
        let programs = lock(&self.private.join(PROGRAMS), FlockOperation::LockExclusive)?;
        launcher::lend(self.programs.insert(Arc::new(programs)));
        Ok(())
    }
}
