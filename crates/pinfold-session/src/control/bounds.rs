//! Limits of a program that runs next to a session's command: by control groups of its own below the
//! session's, or as init watches it.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use pinfold_boundary::{CpuShare, Exceeded, Group, Inside, LaunchError, ResourceLimits};
use pinfold_wire::Bounds;
use serde::{Deserialize, Serialize};

use crate::outcome::LimitReached;

/// How often to look for what the kernel reports to nobody: of a tree of which it has killed a part, the
/// rest is ended.
const LOOK: Duration = Duration::from_millis(200);

/// What a program may use up, with all that it starts, in addition to the session's limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// CPU time for each wall-clock time, in thousandths of a CPU.
    pub cpus: Option<u32>,
}

/// The groups of what runs.
pub(super) struct Bounded {
    group: Group,
    look: Instant,
}

impl Limits {
    /// Makes the groups, and the files by which they are joined, or has init watch; neither where
    /// there is no limit.
    ///
    /// # Errors
    /// Returns an error for a limit that would not be enforced.
    pub(super) fn bound(
        self,
        inside: &Inside,
        bounds: &mut Bounds,
    ) -> Result<(Option<Bounded>, Vec<OwnedFd>), LaunchError> {
        if self == Self::default() {
            return Ok((None, Vec::new()));
        }
        let Self { memory, pids, cpus } = self;
        if inside.has_own_kernel() {
            if cpus.is_some() {
                return Err(LaunchError::Limit {
                    limit: "cpus",
                    cause: "no control group of the host holds a part of a session with a kernel of its own; \
                            limit the whole session (`pinfold run --cpus`)"
                        .to_owned(),
                });
            }
            // Init watches, or refuses where that kernel does not tell what each process uses up.
            (bounds.memory, bounds.pids) = (memory, pids);
            return Ok((None, Vec::new()));
        }
        let cpus = cpus.map(|thousandths| CpuShare { thousandths, required: true });
        let limits = ResourceLimits { memory, pids, cpus, ..ResourceLimits::default() };
        let group = match Group::of_part(inside.group(), &limits) {
            Err(_) if cpus.is_none() => {
                (bounds.memory, bounds.pids) = (memory, pids);
                return Ok((None, Vec::new()));
            }
            group => group?,
        };
        let entrances = group.entrances().map_err(|error| LaunchError::Limit {
            limit: "one",
            cause: format!("its control group cannot be joined: {error}"),
        })?;
        bounds.groups = entrances.len() as u8;
        Ok((Some(Bounded { group, look: Instant::now() + LOOK }), entrances))
    }
}

impl Bounded {
    /// Returns when to look, where that is needed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.group.needs_a_look().then_some(self.look)
    }

    /// Returns whether it has just been seen that too much memory was used.
    pub(super) fn has_run_out(&mut self) -> bool {
        let is_due = self.due().is_some_and(|due| Instant::now() >= due);
        if is_due {
            self.look = Instant::now() + LOOK;
        }
        is_due && self.reached() == Some(LimitReached::Memory)
    }

    /// Returns the limit of its own that it has reached.
    pub(super) fn reached(&self) -> Option<LimitReached> {
        match self.group.exceeded()? {
            Exceeded::Memory if self.group.suffered() => None,
            Exceeded::Memory => Some(LimitReached::Memory),
            Exceeded::Pids => Some(LimitReached::Pids),
        }
    }

    /// Returns whether it is evidence of what the whole session has used up, to be kept for that.
    pub(super) fn is_evidence(&self) -> bool {
        self.group.suffered()
    }
}
