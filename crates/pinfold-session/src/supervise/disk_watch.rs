//! What a run writes to the disk, watched: nobody without privileges can bound a directory by the
//! kernel.
//!
//! What is left of the disk is asked for five times a second, which costs nothing. What the directory
//! holds is counted name by name, so only when the disk has filled by half of what may still come
//! since the last time, or half a minute later, and never for more than a tenth of the time. So a run
//! that ends at its limit can be over it by what it writes between two counts; who makes use of the
//! directory afterwards counts once more. What is deleted and still open is no name's: it is bounded
//! by what is left for others.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use pinfold_policy::limits::ByteSize;
use pinfold_snapshot::disk::{Disk, held};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::outcome::LimitReached;

/// Time between two looks at the disk. A gibibyte is kept free for what is written between them.
const INTERVAL: Duration = Duration::from_millis(200);
/// The longest time without a count.
const LONGEST: Duration = Duration::from_secs(30);
/// Time between two counts, as a multiple of what the last one took.
const PAUSE: u32 = 10;

/// A directory that a run fills, and how far.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub dir: PathBuf,
    /// Bytes that it may hold.
    pub most: ByteSize,
}

/// The watch of one run, on a thread of its own: counting a million names takes seconds.
pub(crate) struct DiskWatch {
    /// Readable when a limit is reached: one byte that says which.
    reached: OwnedFd,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bound {
    /// Returns the limit that is reached, if one is: counts every name.
    ///
    /// # Errors
    /// Returns an error for a directory that cannot be opened.
    pub(crate) fn look(&self) -> io::Result<Option<LimitReached>> {
        if Disk::of(&self.dir)?.is_short() {
            return Ok(Some(LimitReached::Room));
        }
        let most = self.most.bytes();
        let bytes = held(&self.dir, &|bytes| bytes <= most)?;
        Ok((bytes > most).then_some(LimitReached::Build))
    }
}

impl DiskWatch {
    /// Watches from now on.
    ///
    /// # Errors
    /// Returns the error of `pipe(2)` and starting a thread.
    pub(crate) fn watch(bound: Bound) -> io::Result<Self> {
        let (reached, report) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("disk".to_owned()).spawn(move || {
            let signal = match until_reached(&bound, &stopped) {
                Some(LimitReached::Room) => b'r',
                Some(_) => b'b',
                None => return,
            };
            // Nobody reads it who has ended.
            let _ = rustix::io::write(&report, &[signal]);
            // Kept open: a closed pipe would be readable for ever.
            while !stopped.load(Ordering::Relaxed) {
                thread::park();
            }
        })?;
        Ok(Self { reached, stop, thread: Some(thread) })
    }

    /// Returns a descriptor that is readable when a limit is reached.
    pub(crate) fn waiting(&self) -> BorrowedFd<'_> {
        self.reached.as_fd()
    }

    /// Returns the limit that was reached, reported once.
    pub(crate) fn reached(&self) -> Option<LimitReached> {
        let mut signal = [0];
        match rustix::io::read(&self.reached, &mut signal) {
            Ok(1) if signal == *b"r" => Some(LimitReached::Room),
            Ok(1) => Some(LimitReached::Build),
            _ => None,
        }
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic has been reported by its own thread.
            let _ = thread.join();
        }
    }
}

/// What the last count found.
struct Count {
    bytes: u64,
    /// Of the whole disk, at that time.
    used: u64,
    at: Instant,
    took: Duration,
}

/// Looks until a limit is reached, or somebody says to stop.
fn until_reached(bound: &Bound, stop: &AtomicBool) -> Option<LimitReached> {
    let mut last = None;
    loop {
        thread::park_timeout(INTERVAL);
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        // When a disk cannot be asked any more, the writer to it reports that.
        let Ok(disk) = Disk::of(&bound.dir) else { continue };
        if disk.is_short() {
            return Some(LimitReached::Room);
        }
        if !is_due(last.as_ref(), disk.used, bound.most.bytes()) {
            continue;
        }
        let count = count(&bound.dir, disk.used, stop)?;
        if count.bytes > bound.most.bytes() {
            return Some(LimitReached::Build);
        }
        last = Some(count);
    }
}

fn is_due(last: Option<&Count>, used: u64, most: u64) -> bool {
    let Some(last) = last else { return true };
    let passed = last.at.elapsed();
    let room = most.saturating_sub(last.bytes);
    let filled = used.saturating_sub(last.used) >= room / 2;
    passed >= last.took * PAUSE && (filled || passed >= LONGEST)
}

/// Counts what a directory holds; none if it was asked to stop before the end.
fn count(dir: &Path, used: u64, stop: &AtomicBool) -> Option<Count> {
    let at = Instant::now();
    let bytes = held(dir, &|_| !stop.load(Ordering::Relaxed)).unwrap_or(0);
    let count = Count { bytes, used, at, took: at.elapsed() };
    (!stop.load(Ordering::Relaxed)).then_some(count)
}

#[cfg(test)]
mod tests;
