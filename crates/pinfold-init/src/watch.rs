//! Limits that are watched from inside.
//!
//! The kernel refuses one task, byte of a private directory or descriptor too many by itself; it
//! notifies nobody, so a look now and then names the limit. Memory without a control group is bounded
//! by the look alone: init sees every process of the sandbox in its own /proc. That is a guard
//! against run-aways, not a wall: what is allocated and freed between two looks is not seen.

#[cfg(test)]
mod misnamed;
mod part;
mod processes;
mod shared;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_wire::{Bounds, Limit};
use rustix::io::Errno;
use rustix::process::getpid;

#[cfg(test)]
pub(crate) use self::misnamed::Misnamed;
pub(crate) use self::part::PartWatch;
use self::processes::Usage;
use self::shared::Shared;
use crate::tree::Processes;

/// One of the private directories.
const PRIVATE: &str = "/tmp";
/// Time between two looks in the long run.
const INTERVAL: Duration = Duration::from_millis(200);
/// The same at the beginning, and while a process has half of the descriptors that it may have.
const CLOSE: Duration = Duration::from_millis(10);
/// Tasks that the kernel may count with the sandbox's (getrlimit(2), `RLIMIT_NPROC`) and that are not
/// seen from here: the process that keeps the masks has joined the user namespace.
const OF_THE_HOST: u64 = 1;

/// What to watch; `None` is not watched.
#[derive(Debug, Clone, Default)]
pub struct Watched {
    /// Bytes that the tree may hold in memory.
    pub memory: Option<u64>,
    /// Tasks: the kernel refuses the next one by itself, this only reports it.
    pub pids: Option<u64>,
    /// A private directory whose file system is bounded; full is reported.
    pub disk: Option<PathBuf>,
    /// A directory in whose file system changes to views land; nearly full is reported.
    pub changes: Option<PathBuf>,
    /// Open files of one process: the kernel refuses the next one by itself.
    pub files: Option<u64>,
}

/// The watch of one sandbox.
#[derive(Debug)]
pub struct Watch {
    limits: Watched,
    /// Whether memory can be read for each process; none before the first look.
    is_per_process: Option<bool>,
    shared: Shared,
    reported: [bool; 5],
    interval: Duration,
    due: Instant,
    /// What of the machine's processes is the sandbox, where it has no process numbers of its own.
    below: Option<PartWatch>,
}

impl Watch {
    /// Watches these, from now on.
    pub fn new(limits: Watched) -> Self {
        let due = Instant::now() + CLOSE;
        let (is_per_process, shared) = (None, Shared::of_all());
        let reported = [false; 5];
        Self { limits, is_per_process, shared, reported, interval: CLOSE, due, below: None }
    }

    /// Watches the memory and the number of the processes below this one, from now on. Both end the run.
    ///
    /// # Errors
    /// Returns `EOPNOTSUPP` where the kernel does not tell process by process what is used.
    pub fn below(memory: Option<u64>, pids: Option<u64>) -> Result<Self, Errno> {
        let bounds = Bounds { memory, pids, ..Bounds::default() };
        Ok(Self { below: PartWatch::new(bounds)?, ..Self::new(Watched::default()) })
    }

    /// Returns how long to wait at most before the next look.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let Watched { memory, pids, disk, changes, files } = &self.limits;
        let watching = memory.or(*pids).or(*files).is_some() || disk.is_some() || changes.is_some();
        let own = watching.then(|| self.due.saturating_duration_since(Instant::now()));
        own.into_iter().chain(self.below.as_ref().map(PartWatch::patience)).min()
    }

    /// Returns a limit that is reached and was not reported before; looks when it is time to.
    pub(crate) fn look(&mut self) -> Option<Limit> {
        if let Some(below) = &mut self.below {
            return below.look(|| Processes::look().below(getpid()));
        }
        if self.patience()? > Duration::ZERO {
            return None;
        }
        let limit = self.look_now();
        self.due = Instant::now() + self.interval;
        limit
    }

    /// Returns the same at the command's end, of what is still there to be seen then.
    pub(crate) fn last_look(&mut self) -> Option<Limit> {
        let changes = self.limits.changes.as_deref().is_some_and(nearly_full);
        self.report(Limit::Disk, self.limits.disk.as_deref().is_some_and(full))
            .or_else(|| self.report(Limit::Changes, changes))
    }

    fn look_now(&mut self) -> Option<Limit> {
        let Watched { memory, pids, files, .. } = self.limits;
        let changes = self.limits.changes.as_deref().is_some_and(nearly_full);
        let disk = self.limits.disk.as_deref().is_some_and(full);
        // Where it cannot look, it assumes the worst of what only the look bounds.
        let (usage, blind) = match Usage::of_all(memory.or(pids).is_some(), files.is_some()) {
            Ok(usage) => (usage, false),
            Err(_) => (Usage::default(), true),
        };
        let close = files.is_some_and(|most| usage.files >= most / 2);
        self.interval = if close { CLOSE } else { INTERVAL.min(self.interval * 2) };
        let reached = [
            (Limit::Memory, memory.is_some_and(|most| blind || self.memory(&usage) > most)),
            (Limit::Pids, pids.is_some_and(|most| usage.tasks + OF_THE_HOST >= most)),
            (Limit::Disk, disk),
            (Limit::Files, files.is_some_and(|most| usage.files >= most)),
            (Limit::Changes, changes),
        ];
        reached.into_iter().find_map(|(limit, reached)| self.report(limit, reached))
    }

    /// Returns the limit, the first time that it is reached.
    fn report(&mut self, limit: Limit, reached: bool) -> Option<Limit> {
        let reported = &mut self.reported[limit as usize - 1];
        let first = reached && !*reported;
        *reported |= first;
        first.then_some(limit)
    }

    /// Returns bytes that the tree holds: the processes' own, the private directories', which are memory
    /// too, and, where it could matter, what is shared.
    fn memory(&mut self, usage: &Usage) -> u64 {
        if !*self.is_per_process.get_or_insert_with(processes::shows_memory_per_process) {
            // A kernel of this inside's own: to it all memory but that of the host's files is anonymous
            // (gvisor.dev/gvisor, pkg/sentry/fsimpl/proc/tasks_files.go).
            let anonymous = shared::in_meminfo("AnonPages:");
            return anonymous.map_or(u64::MAX, |bytes| bytes.saturating_add(stored()));
        }
        let most = self.limits.memory.unwrap_or(u64::MAX);
        let own = usage.memory.saturating_add(stored());
        own.saturating_add(self.shared.held(&usage.pids, most.saturating_sub(own)))
    }

    /// Returns whether reaching this limit ends the run: only memory cannot be refused piecemeal.
    pub(crate) fn ends(&self, limit: Limit) -> bool {
        limit == Limit::Memory || self.below.is_some()
    }
}

/// Returns bytes in the private directories: they share one file system.
fn stored() -> u64 {
    let used = |stat: rustix::fs::StatVfs| (stat.f_blocks - stat.f_bfree) * stat.f_frsize;
    // A boundary without private directories stores nothing in them.
    rustix::fs::statvfs(PRIVATE).map_or(0, used)
}

/// Returns whether so little is left that what was refused last need not have been much: a hundredth.
/// What is changed first is copied as a whole, and the copy goes when there is no room for all of it.
fn nearly_full(directory: &Path) -> bool {
    const PART: u64 = 100;
    rustix::fs::statvfs(directory)
        .is_ok_and(|stat| stat.f_bfree <= stat.f_blocks / PART || stat.f_ffree == 0)
}

/// Returns whether less than a page's worth is left.
fn full(directory: &Path) -> bool {
    rustix::fs::statvfs(directory).is_ok_and(|stat| stat.f_bfree == 0 || stat.f_ffree == 0)
}

#[cfg(test)]
mod tests;
