//! Where attempts run.

use pinfold_host::Refusal;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::time::ClockId;

use std::time::Duration;

use crate::attempt::Completion;
use crate::failure::Failure;
use crate::inquiry::AttemptQueue;
use crate::queue::Claimed;

/// What carries out attempts: on this machine, or on another one. The lease decides how long an attempt may run,
/// never the engine.
pub trait Engine: Sync {
    /// Carries out an attempt to its end. Ends it when `stop` is set, and returns when nothing of it runs any more.
    /// It reports to `queue`, and asks it what the agent wants to know.
    fn carry_out(&self, claimed: &Claimed, stop: &Stop, queue: &dyn AttemptQueue) -> Ending;

    /// Takes note that the queue has accepted a result.
    ///
    /// # Errors
    /// Returns what the user has to know. The result is accepted all the same.
    fn accepted(&self, claimed: &Claimed, completion: &Completion) -> Result<(), Refusal>;
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Ending {
    /// With a result.
    Completed(Completion),
    /// Without one.
    Failed(Failure),
    /// It was stopped.
    Stopped,
}

/// A flag that is set once, and that poll(2) can wait for.
#[derive(Debug)]
pub struct Stop(OwnedFd);

impl Stop {
    /// Returns a flag that is not set.
    ///
    /// # Errors
    /// Returns the error of eventfd(2).
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Sets the flag.
    pub fn set(&self) {
        // It fails only when the flag was set 2^64 times.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.wait(Duration::ZERO)
    }

    /// Waits until the flag is set, at most so long. Returns whether it is.
    #[must_use]
    pub fn wait(&self, longest: Duration) -> bool {
        let end = boot_time().saturating_add(longest);
        loop {
            let left = end.saturating_sub(boot_time());
            let left = Timespec::try_from(left).ok();
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], left.as_ref()) {
                Ok(0) => return false,
                Err(Errno::INTR) => {}
                // Without poll(2) nothing can be waited for any more.
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns the time of the clock that leases are measured with: it runs on while the machine is suspended.
pub(crate) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Stop;

    #[test]
    fn flag_stays_set() {
        let stop = Stop::new().unwrap();
        assert!(!stop.wait(Duration::from_millis(1)));
        stop.set();
        assert!(stop.is_set() && stop.is_set());
    }
}
