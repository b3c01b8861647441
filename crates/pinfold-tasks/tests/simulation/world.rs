//! The world of a simulation: its clock, its faults, and what happens in which order.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinfold_tasks::{
    Action, Answer, Clock, Completion, Draft, Failure, Holder, Listing, Queue, Request, Status,
    TaskId, TaskSpec, Timestamp, Usage,
};
use pinfold_tasks_postgres::AnyStore;

use crate::cluster::Cluster;
use crate::events::{Event, Life, Schedule, Time};
use crate::ledger::Ledger;
use crate::plan::{self, Kind, Plan, Planned};
use crate::server;
use crate::worker::Worker;

/// When the simulation begins, in milliseconds since 1970.
const BEGINNING: u64 = 1_700_000_000_000;
/// After so long every simulation is over.
const END: Time = Time::from_secs(30 * 86_400);
const MINUTE: f64 = 60.0;

/// The store's clock.
#[derive(Clone, Debug, Default)]
struct VirtualClock(Arc<AtomicU64>);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct World {
    pub(crate) plan: Plan,
    /// Never freed: what a cluster has of it lives as long as the simulation.
    pub(crate) queue: &'static Queue<AnyStore>,
    pub(crate) planned: Vec<Planned>,
    pub(crate) ledger: Ledger,
    clock: VirtualClock,
    /// How far the store's clock was set forward, in milliseconds.
    skew: i64,
    pub(crate) now: Time,
    pub(crate) schedule: Schedule,
    pub(crate) random: fastrand::Rng,
    pub(crate) workers: Vec<Worker>,
    /// None if workers ask for tasks by themselves.
    pub(crate) cluster: Option<Cluster>,
    cut_off: Vec<Time>,
    pub(crate) store_back: Time,
    to_come: usize,
    requests: u64,
    trace: DefaultHasher,
}

impl World {
    pub(crate) fn new(plan: &Plan, open: impl FnOnce(Box<dyn Clock>) -> AnyStore) -> Self {
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let clock = VirtualClock::default();
        let store = open(Box::new(clock.clone()));
        let worker = |index| {
            // No clock runs more than two hundredths too fast or too slow.
            let rate = if plan.faults.is_some() { 0.98 + 0.04 * random.f64() } else { 1.0 };
            Worker::new(index, rate, random.u64(..))
        };
        let workers = (0..plan.workers).map(worker).collect();
        let planned = plan::tasks(plan, &mut random);
        let queue: &'static Queue<AnyStore> = Box::leak(Box::new(Queue::new(store)));
        let cluster = plan
            .placed
            .map(|most| Cluster::new(queue, most, random.u64(..), plan.faults.is_some()));
        let mut world = Self {
            plan: *plan,
            queue,
            cluster,
            planned,
            ledger: Ledger::default(),
            clock,
            skew: 0,
            now: Time::ZERO,
            schedule: Schedule::default(),
            random,
            workers,
            cut_off: vec![Time::ZERO; plan.workers],
            store_back: Time::ZERO,
            to_come: plan.tasks,
            requests: 0,
            trace: DefaultHasher::new(),
        };
        world.begin();
        world
    }

    /// Schedules what does not depend on anything else.
    fn begin(&mut self) {
        for task in 0..self.plan.tasks {
            // Dependencies exist before the tasks that wait for them.
            let at = Duration::from_millis(500 * task as u64 + self.random.u64(0..500));
            self.schedule.add(at, Event::Add(task));
            if self.plan.faults.is_some() && self.random.u8(0..10) == 0 {
                let later = at + self.exponential(10.0 * MINUTE);
                self.schedule.add(later, Event::Cancel(task));
                let later = later + self.exponential(5.0 * MINUTE);
                self.schedule.add(later, Event::Retry(task));
            }
        }
        if self.cluster.is_some() {
            // Nodes begin when they get jobs.
            self.workers.iter_mut().for_each(|worker| worker.is_up = false);
            self.schedule.add(Time::ZERO, Event::Cluster);
        }
        for worker in 0..self.plan.workers {
            let life = self.workers[worker].life;
            let at = Duration::from_millis(self.random.u64(0..2_000));
            self.schedule.add(at, Event::Due(life));
            self.plan_fault(Event::Crash(worker));
            self.plan_fault(Event::Partition(worker));
        }
        self.plan_fault(Event::StoreFails);
        if self.plan.clock_jumps {
            self.plan_fault(Event::ClockJumps);
        }
        self.schedule.add(Duration::from_secs(30), Event::Sweep);
    }

    /// Schedules the next fault of a kind.
    fn plan_fault(&mut self, event: Event) {
        if let Some(mean) = self.plan.faults {
            let at = self.now + self.exponential(mean.as_secs_f64());
            self.schedule.add(at, event);
        }
    }

    /// Lets happen what happens, until nothing more can.
    pub(crate) fn run(&mut self) {
        while let Some((at, event)) = self.schedule.next() {
            self.now = at;
            assert!(at < END, "tasks are neither done nor given up");
            let millis = BEGINNING + u64::try_from(at.as_millis()).unwrap();
            self.clock.0.store(millis.saturating_add_signed(self.skew), Ordering::Relaxed);
            if matches!(event, Event::Sweep) && self.is_over() {
                return;
            }
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Arrives { from, call, request } => self.arrive(from, call, request),
            Event::Answered { to, call, answer } => {
                if self.lives(to) && !self.is_cut_off(to.worker) {
                    let actions = self.workers[to.worker].take(call, answer, self.now);
                    self.act(to, actions);
                    self.end_if_done(to);
                }
            }
            Event::Due(life) => {
                // Another event may have moved it.
                if self.lives(life)
                    && self.workers[life.worker].due() <= self.now + Duration::from_millis(1)
                {
                    let actions = self.workers[life.worker].step(self.now);
                    self.act(life, actions);
                    self.end_if_done(life);
                }
            }
            Event::Finished { life, holder } => self.finish(life, holder),
            Event::ShutDown { life, holder } => self.give_back(life, holder),
            Event::Gone { task, attempt } => self.ledger.gone(task, attempt),
            Event::Crash(worker) => self.crash_or_shut_down(worker),
            Event::Restart(worker) => {
                self.workers[worker].restart(self.now);
                let life = self.workers[worker].life;
                self.act(life, Vec::new());
            }
            Event::Partition(worker) => {
                self.cut_off[worker] = self.now + self.exponential(4.0 * MINUTE);
                self.plan_fault(Event::Partition(worker));
            }
            Event::StoreFails => {
                self.store_back = self.now + self.exponential(2.0 * MINUTE);
                self.plan_fault(Event::StoreFails);
            }
            Event::ClockJumps => {
                self.skew = self.random.i64(-3_600_000..3_600_000);
                self.plan_fault(Event::ClockJumps);
            }
            Event::Add(task) => self.add(task),
            Event::Cancel(task) => {
                let id = self.planned[task].id;
                if self.queue.cancel(id, "not wanted").is_ok() {
                    *self.ledger.cancelled.entry(id).or_default() += 1;
                }
            }
            Event::Retry(task) => {
                let id = self.planned[task].id;
                if self.queue.retry(id).is_ok() {
                    *self.ledger.retried.entry(id).or_default() += 1;
                }
            }
            Event::Cluster => self.run_cluster(),
            Event::Sweep => {
                self.queue.sweep(100).unwrap();
                self.schedule.add(self.now + Duration::from_secs(30), Event::Sweep);
            }
        }
    }

    fn add(&mut self, task: usize) {
        let planned = &self.planned[task];
        let mut spec = TaskSpec::new(&format!("task {task}"), "work");
        spec.depends = planned.depends.clone();
        spec.priority = (task % 3) as i32;
        spec.attempts = planned.attempts;
        if planned.kind == Kind::Endless {
            spec.timeouts.running = Duration::from_secs(600);
        }
        let draft = Draft { id: planned.id, spec, expires_after: None };
        self.queue.add(&draft).unwrap();
        self.to_come -= 1;
    }

    fn arrive(&mut self, from: Life, call: u64, request: Request) {
        if self.is_cut_off(from.worker) {
            return;
        }
        self.requests += 1;
        let answer = if self.now < self.store_back {
            if self.random.bool() {
                // It waits for the store, and is carried out late.
                let at = self.store_back + Duration::from_millis(self.random.u64(1..5_000));
                self.schedule.add(at, Event::Arrives { from, call, request });
                return;
            }
            Answer::Transient
        } else {
            let (answer, settled) = match (&self.cluster, &request) {
                (Some(cluster), Request::Claim(_)) => (cluster.claim(from, &request), None),
                _ => server::carry_out(self.queue, &request),
            };
            server::note(&request, &answer, settled, &mut self.ledger);
            server::trace(&mut self.trace, &request, &answer);
            answer
        };
        for at in self.plan.network.send(self.now, &mut self.random) {
            self.schedule.add(at, Event::Answered { to: from, call, answer: answer.clone() });
        }
    }

    /// Does what a worker wants done, and schedules when it wants more.
    fn act(&mut self, life: Life, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send { call, request } => {
                    if self.is_cut_off(life.worker) {
                        continue;
                    }
                    for at in self.plan.network.send(self.now, &mut self.random) {
                        let request = request.clone();
                        self.schedule.add(at, Event::Arrives { from: life, call, request });
                    }
                }
                Action::Start(claimed) => {
                    let holder = claimed.holder;
                    self.ledger.starts(&holder, life);
                    let lasts = match self.kind(holder.task) {
                        Kind::Endless => Duration::from_secs(3 * 3_600),
                        _ => self.exponential(4.0 * MINUTE),
                    };
                    self.schedule.add(self.now + lasts, Event::Finished { life, holder });
                }
                Action::Stop(Holder { task, attempt, .. }) => {
                    let lasts = Duration::from_millis(self.random.u64(0..5_000));
                    self.schedule.add(self.now + lasts, Event::Gone { task, attempt });
                }
            }
        }
        let due = self.workers[life.worker].due().max(self.now);
        self.schedule.add(due, Event::Due(life));
    }

    fn finish(&mut self, life: Life, holder: Holder) {
        if !self.lives(life) || !self.workers[life.worker].finished(&holder) {
            return;
        }
        let kind = self.kind(holder.task);
        if kind == Kind::Poison {
            return self.crash(life.worker);
        }
        self.ledger.gone(holder.task, holder.attempt);
        let fails = |retryable| {
            let failure = Failure { retryable: Some(retryable), ..Failure::new("failed", "") };
            Request::Fail(holder, failure)
        };
        let request = match kind {
            Kind::Bad => fails(false),
            Kind::Flaky if self.random.bool() => fails(true),
            _ => {
                let output = format!(r#"{{"attempt":{},"by":{}}}"#, holder.attempt, life.worker);
                Request::Complete(holder, Completion { output, usage: Usage::default() })
            }
        };
        let actions = self.workers[life.worker].report(request, self.now);
        self.act(life, actions);
    }

    fn crash_or_shut_down(&mut self, worker: usize) {
        let holder = self.workers[worker].works_on().filter(|_| self.random.u8(0..3) == 0);
        match holder {
            // It ends its sandbox, and gives the task back when that is gone.
            Some(holder) => {
                let life = self.workers[worker].life;
                let at = self.now + Duration::from_millis(self.random.u64(0..5_000));
                self.schedule.add(at, Event::ShutDown { life, holder });
            }
            None if self.workers[worker].is_up => self.crash(worker),
            None => {}
        }
        self.plan_fault(Event::Crash(worker));
    }

    fn give_back(&mut self, life: Life, holder: Holder) {
        if self.lives(life) && self.workers[life.worker].finished(&holder) {
            self.ledger.gone(holder.task, holder.attempt);
            let abort = Request::Abort(holder);
            let actions = self.workers[life.worker].report(abort, self.now);
            self.act(life, actions);
        }
    }

    /// Ends a worker at once, with its sandbox.
    fn crash(&mut self, worker: usize) {
        self.kill(worker);
        if let Some(cluster) = &mut self.cluster {
            return cluster.ended(self.workers[worker].life, self.now);
        }
        let at = self.now + self.exponential(3.0 * MINUTE);
        self.schedule.add(at, Event::Restart(worker));
    }

    /// Ends what runs on a worker.
    pub(crate) fn kill(&mut self, worker: usize) {
        self.workers[worker].is_up = false;
        self.ledger.died(self.workers[worker].life);
    }

    /// Whether all tasks were added, and none can be claimed or is worked on.
    fn is_over(&self) -> bool {
        let statuses = vec![Status::Queued, Status::Dispatched, Status::Running];
        let listing = Listing { statuses, limit: 1, ..Listing::default() };
        let is_idle = self.cluster.as_ref().is_none_or(Cluster::is_empty);
        is_idle && self.to_come == 0 && self.queue.list(&listing).unwrap().tasks.is_empty()
    }

    pub(crate) fn lives(&self, life: Life) -> bool {
        let worker = &self.workers[life.worker];
        worker.is_up && worker.life == life
    }

    pub(crate) fn is_cut_off(&self, worker: usize) -> bool {
        self.now < self.cut_off[worker]
    }

    fn kind(&self, id: TaskId) -> Kind {
        self.planned.iter().find(|planned| planned.id == id).unwrap().kind
    }

    /// Returns a time whose mean is so many seconds.
    fn exponential(&mut self, mean: f64) -> Duration {
        let chance = 1.0 - self.random.f64();
        Duration::from_secs_f64((-chance.ln() * mean).min(86_400.0))
    }

    /// Returns a digest of what was asked and answered.
    pub(crate) fn trace(&self) -> u64 {
        self.trace.finish()
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "seed {}: {} tasks, {} workers: {} requests, {} sandboxes and {} jobs in {:.1} simulated hours",
            self.plan.seed,
            self.plan.tasks,
            self.plan.workers,
            self.requests,
            self.ledger.started,
            self.cluster.as_ref().map_or(0, Cluster::placed),
            self.now.as_secs_f64() / 3_600.0
        )
    }
}
