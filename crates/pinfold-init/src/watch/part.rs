//! Limits of programs that run next to the command, where no control group holds them: init looks at
//! all that is below the process above it, which none of it can leave.

use std::time::{Duration, Instant};

use pinfold_wire::{Bounds, Limit};
use rustix::io::Errno;

use super::processes::{Usage, shows_memory_per_process};
use super::shared::Shared;
use super::{CLOSE, INTERVAL};

/// What is due within this time is looked at as well when something is: to see who is below whom, every
/// process is asked.
const TOGETHER: Duration = Duration::from_millis(50);

/// The watch of one part of the sandbox.
#[derive(Debug)]
pub(crate) struct PartWatch {
    memory: Option<u64>,
    pids: Option<u64>,
    shared: Shared,
    interval: Duration,
    due: Instant,
}

impl PartWatch {
    /// Watches what of these bounds is to be watched, from now on.
    ///
    /// # Errors
    /// Returns `EOPNOTSUPP` where the kernel does not tell process by process what is used: it is not the one
    /// whose control groups those are, either.
    pub(crate) fn new(bounds: Bounds) -> Result<Option<Self>, Errno> {
        let Bounds { memory, pids, groups, .. } = bounds;
        let is_watched = memory.or(pids).is_some();
        if (is_watched || groups > 0) && !shows_memory_per_process() {
            return Err(Errno::OPNOTSUPP);
        }
        if !is_watched {
            return Ok(None);
        }
        let (interval, due) = (CLOSE, Instant::now() + CLOSE);
        Ok(Some(Self { memory, pids, shared: Shared::of_part(), interval, due }))
    }

    /// Returns how long to wait at most before the next look.
    pub(crate) fn patience(&self) -> Duration {
        self.due.saturating_duration_since(Instant::now())
    }

    /// Returns a limit that is reached; looks when it is time to, or soon will be. `below` are its
    /// processes, none where not all of them can be seen.
    pub(crate) fn look(&mut self, below: impl FnOnce() -> Option<Vec<u32>>) -> Option<Limit> {
        if self.patience() > TOGETHER {
            return None;
        }
        let limit = self.look_now(below());
        self.interval = INTERVAL.min(self.interval * 2);
        self.due = Instant::now() + self.interval;
        limit
    }

    fn look_now(&mut self, below: Option<Vec<u32>>) -> Option<Limit> {
        let usage = below.and_then(|pids| Usage::of(pids, true, false).ok());
        // Where it cannot look, it assumes the worst of what only the look bounds.
        let Some(usage) = usage else {
            return Some(self.memory.map_or(Limit::Pids, |_| Limit::Memory));
        };
        let has_too_much = |most: u64| {
            let room = most.saturating_sub(usage.memory);
            usage.memory.saturating_add(self.shared.held(&usage.pids, room)) > most
        };
        let is_too_much = self.memory.is_some_and(has_too_much);
        let are_too_many = self.pids.is_some_and(|most| usage.tasks > most);
        (is_too_much.then_some(Limit::Memory)).or(are_too_many.then_some(Limit::Pids))
    }
}
