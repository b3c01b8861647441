//! What time alone does to a task.

use super::Record;
use crate::attempt::AttemptStatus;
use crate::failure::{Failure, code};
use crate::task::Status;
use pinfold_content::Timestamp;

/// How many workers in a row a task may cost. Then it is set aside as failed, whatever attempts are left: it may be
/// what kills them.
pub const QUARANTINE_AFTER: u32 = 3;

/// A deadline that lets an attempt time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deadline {
    Dispatch,
    Lease,
    Total,
}

impl Record {
    /// Returns when time alone changes the task; none after its end.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        match self.task.status {
            Status::Queued => self.task.expires_at,
            Status::Waiting => {
                let is_ready = self.task.waits_for == 0;
                let lease = self.attempt.as_ref().map(|attempt| attempt.lease_until);
                let released = lease.filter(|_| is_ready);
                [self.task.expires_at, released].into_iter().flatten().min()
            }
            Status::Dispatched | Status::Running => self.deadline().map(|(due, _)| due),
            Status::Completed | Status::Failed | Status::Cancelled | Status::Expired => None,
        }
    }

    /// Makes happen what is due: an attempt times out, the task expires, or it can be claimed.
    pub fn pass_time(&mut self, now: Timestamp) {
        let now = self.at(now);
        // An attempt that times out may leave a task that has expired.
        while self.due().is_some_and(|due| due <= now) {
            match self.deadline() {
                Some((_, deadline)) => self.time_out(deadline, now),
                None if self.task.expires_at.is_some_and(|expires| expires <= now) => {
                    let failure = Failure::new(code::TASK_EXPIRED, "nobody began it in time");
                    self.end(Status::Expired, Some(failure), now);
                }
                None => self.enqueue(now),
            }
        }
    }

    /// Ends an attempt whose worker was not heard of, or that took too long.
    fn time_out(&mut self, deadline: Deadline, now: Timestamp) {
        let failure = match deadline {
            Deadline::Dispatch => Failure::new(code::DISPATCH_EXPIRED, "the worker did not begin"),
            Deadline::Lease => Failure::new(code::LEASE_EXPIRED, "the worker was lost"),
            Deadline::Total => {
                Failure::new(code::RUNNING_TOTAL_EXCEEDED, "the attempt took too long")
            }
        };
        self.end_attempt(AttemptStatus::TimedOut, &failure, now);
        // A worker that sends heartbeats was not lost.
        self.task.losses = match deadline {
            Deadline::Dispatch | Deadline::Lease => self.task.losses + 1,
            Deadline::Total => 0,
        };
        if self.task.losses >= QUARANTINE_AFTER {
            let message = format!("{} workers in a row were lost with it", self.task.losses);
            let failure = Failure::new(code::QUARANTINED, message);
            return self.end(Status::Failed, Some(failure), now);
        }
        self.go_on(failure, now);
    }

    /// Returns when the current attempt times out, and why.
    fn deadline(&self) -> Option<(Timestamp, Deadline)> {
        let attempt = self.attempt.as_ref()?;
        match (attempt.status, attempt.started_at) {
            (AttemptStatus::Claimed, _) => {
                Some((attempt.claimed_at + self.task.timeouts.dispatch, Deadline::Dispatch))
            }
            (AttemptStatus::Running, Some(started)) => {
                let total = started + self.task.timeouts.running;
                if total <= attempt.lease_until {
                    Some((total, Deadline::Total))
                } else {
                    Some((attempt.lease_until, Deadline::Lease))
                }
            }
            _ => None,
        }
    }
}
