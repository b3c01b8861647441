//! What happens, and when.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::time::Duration;

use pinfold_tasks::{Answer, Holder, Request, TaskId};

/// Time of the simulation, since its beginning.
pub(crate) type Time = Duration;

/// A worker in one of its lives: after a crash it is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) worker: usize,
    pub(crate) life: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A request reaches the queue.
    Arrives {
        from: Life,
        call: u64,
        request: Request,
    },
    /// An answer reaches a worker.
    Answered {
        to: Life,
        call: u64,
        answer: Answer,
    },
    /// A worker has something to do by its own clock.
    Due(Life),
    /// What a worker started has finished by itself.
    Finished {
        life: Life,
        holder: Holder,
    },
    /// A worker that was asked to end has ended its sandbox.
    ShutDown {
        life: Life,
        holder: Holder,
    },
    /// A sandbox that a worker ended is gone.
    Gone {
        task: TaskId,
        attempt: u32,
    },
    Crash(usize),
    Restart(usize),
    Partition(usize),
    StoreFails,
    ClockJumps,
    Add(usize),
    Cancel(usize),
    Retry(usize),
    Sweep,
    /// The dispatcher and the scheduler of a cluster look what there is to do.
    Cluster,
}

#[derive(Debug)]
struct Scheduled {
    at: Time,
    order: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What is yet to happen. Of two events at one time the one that was scheduled first comes first.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
}

impl Schedule {
    pub(crate) fn add(&mut self, at: Time, event: Event) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at, order: self.order, event }));
    }

    pub(crate) fn next(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse(scheduled)| (scheduled.at, scheduled.event))
    }
}
