//! Workers that are the nodes of a cluster: the real dispatcher places attempts as jobs, and a job's worker may claim
//! its attempt alone.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_cluster::{DispatchError, DispatchEvent, Dispatcher, JobName, PlacedAttempt};
use pinfold_tasks::{Answer, Queue, Request, Source as _};
use pinfold_tasks_postgres::AnyStore;

use crate::events::{Event, Life, Time};
use crate::scheduler::{BareJobs, Fate, SimulatedScheduler};
use crate::world::World;

/// How often the dispatcher and the scheduler do something.
const LOOK: Duration = Duration::from_secs(5);
/// After so long without a word of its node a job is given up.
const GIVEN_UP: Time = Time::from_secs(30);

/// A cluster.
pub(crate) struct Cluster {
    queue: &'static Queue<AnyStore>,
    scheduler: &'static SimulatedScheduler,
    dispatcher: Dispatcher<'static, AnyStore, SimulatedScheduler>,
    most: u32,
    /// The jobs of lives that are not over.
    jobs: BTreeMap<Life, usize>,
    /// Since when nodes with jobs are not heard of.
    silent: BTreeMap<usize, Time>,
    /// Whether nothing was placed at the last look.
    pub(crate) is_idle: bool,
}

impl Cluster {
    pub(crate) fn new(
        queue: &'static Queue<AnyStore>,
        most: u32,
        seed: u64,
        has_faults: bool,
    ) -> Self {
        let scheduler: &'static SimulatedScheduler =
            Box::leak(Box::new(SimulatedScheduler::new(seed, has_faults)));
        let dispatcher = dispatcher(queue, scheduler, most);
        let (jobs, silent) = (BTreeMap::new(), BTreeMap::new());
        Self { queue, scheduler, dispatcher, most, jobs, silent, is_idle: false }
    }

    /// Returns the job of a life.
    fn name(&self, life: Life) -> Option<JobName> {
        self.jobs.get(&life).map(|job| self.scheduler.job(*job).name)
    }

    /// Claims the attempt of a life's job.
    pub(crate) fn claim(&self, life: Life, request: &Request) -> Answer {
        let Some(name) = self.name(life) else { return Answer::Refused };
        let placed = PlacedAttempt::new(self.queue, name, None);
        match placed.ask(request, Duration::from_secs(300)) {
            Ok(answer) => answer,
            Err(denied) => panic!("the store failed: {}", denied.reason),
        }
    }

    /// Notes that a life is over, and its job with it.
    pub(crate) fn ended(&mut self, life: Life, now: Time) {
        if let Some(job) = self.jobs.remove(&life) {
            self.scheduler.change(job, |job| job.fate = Fate::Ended(now));
            self.silent.remove(&life.worker);
        }
    }

    /// Returns whether nothing is placed, waits or runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_idle && self.jobs.is_empty() && self.scheduler.with_fate(Fate::Waiting).is_empty()
    }

    pub(crate) fn placed(&self) -> usize {
        self.scheduler.count()
    }
}

fn dispatcher(
    queue: &'static Queue<AnyStore>,
    scheduler: &'static SimulatedScheduler,
    most: u32,
) -> Dispatcher<'static, AnyStore, SimulatedScheduler> {
    let observer: &dyn Fn(&DispatchEvent<'_>) = &|_| {};
    Dispatcher::new(queue, scheduler, &BareJobs, most, observer)
}

impl World {
    /// Has the dispatcher and the scheduler do what they do, and plans the next time.
    pub(crate) fn run_cluster(&mut self) {
        let Some(mut cluster) = self.cluster.take() else { return };
        cluster.scheduler.set_time(self.now);
        if self.plan.faults.is_some() && self.random.u8(0..100) == 0 {
            // It is ended at any time, and another one goes on.
            cluster.dispatcher = dispatcher(cluster.queue, cluster.scheduler, cluster.most);
        }
        if self.now >= self.store_back {
            match cluster.dispatcher.step(self.now) {
                Ok(step) => cluster.is_idle = step.placed == 0 && !step.has_changed,
                Err(DispatchError::Queue(error)) => panic!("the store failed: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
        self.end_cancelled(&mut cluster);
        self.start_waiting(&mut cluster);
        self.give_up_silent(&mut cluster);
        self.cluster = Some(cluster);
        self.schedule.add(self.now + LOOK, Event::Cluster);
    }

    fn end_cancelled(&mut self, cluster: &mut Cluster) {
        for index in cluster.scheduler.with_fate(Fate::Waiting) {
            if cluster.scheduler.job(index).is_cancelled {
                cluster.scheduler.change(index, |job| job.fate = Fate::Ended(self.now));
            }
        }
        let running: Vec<(Life, usize)> =
            cluster.jobs.iter().map(|(life, job)| (*life, *job)).collect();
        for (life, job) in running {
            // A node that is cut off learns of nothing.
            if cluster.scheduler.job(job).is_cancelled && !self.is_cut_off(life.worker) {
                self.kill(life.worker);
                cluster.ended(life, self.now);
            }
        }
    }

    fn start_waiting(&mut self, cluster: &mut Cluster) {
        for index in cluster.scheduler.with_fate(Fate::Waiting) {
            let is_free =
                |worker: &usize| !self.workers[*worker].is_up && !self.is_cut_off(*worker);
            let free: Vec<usize> = (0..self.workers.len()).filter(is_free).collect();
            if free.is_empty() || self.random.u8(0..3) == 0 {
                continue;
            }
            let worker = free[self.random.usize(0..free.len())];
            self.workers[worker].restart(self.now);
            let life = self.workers[worker].life;
            cluster.jobs.insert(life, index);
            cluster.scheduler.change(index, |job| job.fate = Fate::Running);
            self.schedule.add(self.now + Duration::from_millis(1), Event::Due(life));
        }
    }

    /// Has the scheduler give up jobs on nodes that are cut off. They run on there.
    fn give_up_silent(&mut self, cluster: &mut Cluster) {
        let running: Vec<(Life, usize)> =
            cluster.jobs.iter().map(|(life, job)| (*life, *job)).collect();
        for (life, job) in running {
            if self.is_cut_off(life.worker) {
                let since = *cluster.silent.entry(life.worker).or_insert(self.now);
                if since + GIVEN_UP <= self.now {
                    cluster.scheduler.change(job, |job| job.is_given_up = true);
                }
            } else {
                cluster.silent.remove(&life.worker);
            }
        }
    }

    /// Ends the life of a node that has nothing more to do.
    pub(crate) fn end_if_done(&mut self, life: Life) {
        let is_done = self.lives(life) && !self.workers[life.worker].is_busy();
        if let Some(cluster) = self.cluster.as_mut().filter(|_| is_done) {
            cluster.ended(life, self.now);
            self.workers[life.worker].is_up = false;
        }
    }
}
