//! Limits: those that the supervisor enforces, and those that others have.

use std::time::Instant;

use pinfold_boundary::{Exceeded, Group};
use pinfold_wire::Limit;

use super::{GRACE, Supervision};
use crate::outcome::LimitReached;

impl Supervision {
    /// Notes the limit that the control group has enforced: an engine takes away a container's soon.
    pub(super) fn note_group(&mut self) {
        match self.inside.group().and_then(|group| group.exceeded()) {
            Some(Exceeded::Memory) => self.state.reach(LimitReached::Memory),
            Some(Exceeded::Pids) => self.state.reach(LimitReached::Pids),
            None => {}
        }
    }

    /// Ends what has gone on for too long, or needs more than it may have.
    pub(super) fn look_at_limits(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.state.reach(LimitReached::Timeout);
            self.order(libc::SIGTERM);
            self.state.killing = Some(now + GRACE);
        }
        if self.state.killing.is_some_and(|at| now >= at) {
            self.state.killing = None;
            self.state.killed = true;
            self.inside.kill();
        }
        let killed =
            |group: &Group| group.needs_a_look() && group.exceeded() == Some(Exceeded::Memory);
        let ending = self.state.limit.is_some_and(LimitReached::ended_the_run);
        if !ending && self.inside.group().is_some_and(killed) {
            self.state.reach(LimitReached::Memory);
            self.inside.kill();
        }
    }
}

/// Returns a limit as init names it.
pub(super) fn reached(limit: Limit) -> LimitReached {
    match limit {
        Limit::Memory => LimitReached::Memory,
        Limit::Pids => LimitReached::Pids,
        Limit::Disk => LimitReached::Disk,
        Limit::Files => LimitReached::Files,
        Limit::Changes => LimitReached::Overlay,
    }
}
