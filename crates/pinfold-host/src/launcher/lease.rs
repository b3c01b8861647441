//! Files that programs on the host hold open as long as they run.
//!
//! A lock of flock(2) belongs to the open file, which children inherit. So a lock that is lent to the
//! programs that change a repository is free only when the last of them has ended, whatever killed the
//! process that had started it.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::{Arc, Weak};

use crate::sys;
use parking_lot::Mutex;

static LENT: Mutex<Vec<Weak<File>>> = Mutex::new(Vec::new());

/// Lends a file to each program that is started on a repository from now on, as long as it is held.
pub fn lend(file: &Arc<File>) {
    let mut lent = LENT.lock();
    lent.retain(|file| file.strong_count() > 0);
    lent.push(Arc::downgrade(file));
}

/// Has a program hold what is lent.
pub(super) fn give(command: &mut Command) {
    let lent = LENT.lock();
    for file in lent.iter().filter_map(Weak::upgrade) {
        debug_assert!(file.as_raw_fd() > 2, "the streams are taken");
        sys::leave_open(command, file);
    }
}
