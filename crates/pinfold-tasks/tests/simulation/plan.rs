//! What is simulated.

use std::time::Duration;

use pinfold_tasks::TaskId;

use crate::network::Network;

/// How large a simulation is, and what goes wrong in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) tasks: usize,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) network: Network,
    /// Mean time between two crashes of a worker, between its partitions, and between failures of the store.
    pub(crate) faults: Option<Duration>,
    /// Whether the store's clock is set forward and back. Then two sandboxes may work on one task, but one result counts.
    pub(crate) clock_jumps: bool,
    /// The most attempts that a dispatcher places at once on the workers, which are nodes then; none if they ask by themselves.
    pub(crate) placed: Option<u32>,
}

impl Plan {
    pub(crate) fn hostile(tasks: usize, workers: usize, seed: u64) -> Self {
        Self {
            tasks,
            workers,
            seed,
            network: Network {
                loss: 0.08,
                repetition: 0.05,
                slow: 0.03,
                longest: Duration::from_secs(120),
            },
            faults: Some(Duration::from_secs(1_800)),
            clock_jumps: false,
            placed: None,
        }
    }

    /// Returns the plan with workers that are nodes of a cluster.
    pub(crate) fn on_a_cluster(self) -> Self {
        let placed = u32::try_from(self.workers + self.workers / 2).unwrap_or(u32::MAX);
        Self { placed: Some(placed), ..self }
    }

    /// Returns a plan in which leases protect nothing: results arrive long after them, and the store's clock jumps.
    pub(crate) fn chaotic(tasks: usize, workers: usize, seed: u64) -> Self {
        let hostile = Self::hostile(tasks, workers, seed);
        let longest = Duration::from_secs(1_200);
        let network = Network { slow: 0.15, longest, ..hostile.network };
        Self { network, clock_jumps: true, ..hostile }
    }

    pub(crate) fn calm(tasks: usize, workers: usize, seed: u64) -> Self {
        let hostile = Self::hostile(tasks, workers, seed);
        let network = Network { loss: 0.0, repetition: 0.0, slow: 0.0, ..hostile.network };
        Self { network, faults: None, ..hostile }
    }
}

/// What becomes of an attempt at a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Good,
    /// It fails now and then, and may be repeated.
    Flaky,
    /// It fails, and need not be repeated.
    Bad,
    /// It kills its worker.
    Poison,
    /// It takes longer than it may.
    Endless,
}

/// A task of the simulation.
#[derive(Clone, Debug)]
pub(crate) struct Planned {
    pub(crate) id: TaskId,
    pub(crate) kind: Kind,
    pub(crate) depends: Vec<TaskId>,
    pub(crate) attempts: u32,
}

/// Returns the tasks of a simulation. A task depends on earlier ones.
pub(crate) fn tasks(plan: &Plan, random: &mut fastrand::Rng) -> Vec<Planned> {
    let mut planned: Vec<Planned> = Vec::new();
    for task in 0..plan.tasks {
        let kind = match random.u8(0..100) {
            _ if plan.faults.is_none() => Kind::Good,
            0..70 => Kind::Good,
            70..82 => Kind::Flaky,
            82..87 => Kind::Bad,
            87..94 => Kind::Poison,
            _ => Kind::Endless,
        };
        let mut depends = Vec::new();
        if task > 0 && random.u8(0..10) == 0 {
            for _ in 0..random.usize(1..3) {
                depends.push(planned[random.usize(0..task)].id);
            }
        }
        let id = TaskId::from_random(random.u128(..).to_le_bytes());
        // Now and then more than a quarantine leaves.
        let attempts = random.u32(1..9);
        planned.push(Planned { id, kind, depends, attempts });
    }
    planned
}
