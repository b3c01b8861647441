//! A worker of the simulation: the real state machine, with a clock that runs too fast or too slow, and lives.

use std::time::Duration;

use pinfold_tasks::{Action, Answer, Holder, Request, WorkerMachine, WorkerSettings};

use crate::events::{Life, Time};

/// A worker. The times of its machine are of its own clock, which begins with its life.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) life: Life,
    pub(crate) is_up: bool,
    /// When this life began.
    born: Time,
    /// How fast its clock runs.
    rate: f64,
    machine: WorkerMachine,
}

impl Worker {
    pub(crate) fn new(index: usize, rate: f64, seed: u64) -> Self {
        let settings = WorkerSettings::new(&format!("worker-{index}"));
        Self {
            life: Life { worker: index, life: 0 },
            is_up: true,
            born: Time::ZERO,
            rate,
            machine: WorkerMachine::new(settings, fastrand::Rng::with_seed(seed)),
        }
    }

    /// Begins another life, which knows nothing of the one before.
    pub(crate) fn restart(&mut self, now: Time) {
        self.life.life += 1;
        self.is_up = true;
        self.born = now;
        self.machine.reset();
    }

    /// Returns the time of its clock.
    fn local(&self, now: Time) -> Duration {
        (now - self.born).mul_f64(self.rate)
    }

    /// Returns when it has something to do, in time of the simulation.
    pub(crate) fn due(&self) -> Time {
        // A clock that is read a moment later has surely reached it.
        self.born + self.machine.due().div_f64(self.rate) + Duration::from_millis(1)
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: Time) -> Vec<Action> {
        self.machine.step(self.local(now))
    }

    /// Takes an answer.
    pub(crate) fn take(&mut self, call: u64, answer: Answer, now: Time) -> Vec<Action> {
        self.machine.take(call, answer, self.local(now))
    }

    /// Notes that the sandbox has ended by itself. Returns whether it was still wanted.
    pub(crate) fn finished(&mut self, holder: &Holder) -> bool {
        self.machine.finished(holder)
    }

    /// Begins to report a result.
    pub(crate) fn report(&mut self, request: Request, now: Time) -> Vec<Action> {
        self.machine.report(request, self.local(now))
    }

    /// Returns whether it holds a task, or may have claimed one.
    pub(crate) fn is_busy(&self) -> bool {
        self.machine.is_busy()
    }

    /// Returns what it works on with a sandbox.
    pub(crate) fn works_on(&self) -> Option<Holder> {
        self.machine.works_on()
    }
}
