//! A scheduler of the simulation: it loses requests and answers, starts jobs twice, forgets jobs, and learns late that a node
//! is gone.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_cluster::{
    Job, JobId, JobMaker, JobName, JobRequest, JobState, Scheduler, SchedulerError, SecretVariable,
};
use pinfold_tasks::TaskSpec;

use crate::events::Time;

/// How long a scheduler knows of a job after its end (`MinJobAge`, slurm.conf(5)).
const KEPT: Time = Time::from_secs(600);

/// What really becomes of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It waits for a node.
    Waiting,
    Running,
    Ended(Time),
}

/// A job, as it is and as the scheduler sees it.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedJob {
    pub(crate) name: JobName,
    pub(crate) fate: Fate,
    /// Whether the scheduler takes it for ended, whatever it is.
    pub(crate) is_given_up: bool,
    /// Whether the scheduler does not know it any more, whatever it is.
    pub(crate) is_forgotten: bool,
    /// Whether it is to be ended.
    pub(crate) is_cancelled: bool,
}

/// The jobs of a simulation. The id of a job is its place.
#[derive(Debug)]
pub(crate) struct SimulatedScheduler(RefCell<State>);

#[derive(Debug)]
struct State {
    jobs: Vec<SimulatedJob>,
    now: Time,
    random: fastrand::Rng,
    has_faults: bool,
}

impl SimulatedScheduler {
    pub(crate) fn new(seed: u64, has_faults: bool) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self(RefCell::new(State { jobs: Vec::new(), now: Time::ZERO, random, has_faults }))
    }

    pub(crate) fn set_time(&self, now: Time) {
        self.0.borrow_mut().now = now;
    }

    pub(crate) fn count(&self) -> usize {
        self.0.borrow().jobs.len()
    }

    pub(crate) fn job(&self, index: usize) -> SimulatedJob {
        self.0.borrow().jobs[index].clone()
    }

    pub(crate) fn change(&self, index: usize, change: impl FnOnce(&mut SimulatedJob)) {
        change(&mut self.0.borrow_mut().jobs[index]);
    }

    /// Returns the jobs that nobody has started or ended.
    pub(crate) fn with_fate(&self, fate: Fate) -> Vec<usize> {
        let state = self.0.borrow();
        let jobs = state.jobs.iter().enumerate();
        jobs.filter(|(_, job)| job.fate == fate).map(|(index, _)| index).collect()
    }
}

impl State {
    /// Returns whether something goes wrong that does so in one of `times` cases.
    fn fails(&mut self, times: u32) -> bool {
        self.has_faults && self.random.u32(0..times) == 0
    }

    fn add(&mut self, name: JobName) -> JobId {
        self.jobs.push(SimulatedJob {
            name,
            fate: Fate::Waiting,
            is_given_up: false,
            is_forgotten: false,
            is_cancelled: false,
        });
        JobId((self.jobs.len() - 1).to_string())
    }

    fn knows(&self, job: &SimulatedJob) -> bool {
        let is_old = matches!(job.fate, Fate::Ended(at) if at + KEPT < self.now);
        !job.is_forgotten && !is_old
    }

    fn state(&self, id: &JobId) -> JobState {
        let index: usize = id.0.parse().expect("the id is one that this scheduler gave");
        match &self.jobs[index] {
            job if !self.knows(job) => JobState::Unknown,
            job if job.is_given_up => JobState::Ended("NODE_FAIL".to_owned()),
            SimulatedJob { fate: Fate::Waiting, .. } => JobState::Waiting,
            SimulatedJob { fate: Fate::Running, .. } => JobState::Running,
            SimulatedJob { fate: Fate::Ended(_), .. } => JobState::Ended("COMPLETED".to_owned()),
        }
    }
}

fn unavailable() -> SchedulerError {
    SchedulerError::Unavailable("it does not answer".to_owned())
}

impl Scheduler for SimulatedScheduler {
    fn name(&self) -> &'static str {
        "simulation"
    }

    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError> {
        let mut state = self.0.borrow_mut();
        if state.fails(12) {
            return Err(unavailable());
        }
        let job = state.add(request.name);
        if state.fails(20) {
            // A client repeats what was not answered in time.
            state.add(request.name);
        }
        if state.fails(12) {
            return Err(unavailable());
        }
        Ok(job)
    }

    fn find(&self, name: &JobName) -> Result<Vec<JobId>, SchedulerError> {
        let mut state = self.0.borrow_mut();
        if state.fails(10) {
            return Err(unavailable());
        }
        let jobs = state.jobs.iter().enumerate();
        let found = jobs.filter(|(_, job)| job.name == *name && state.knows(job));
        Ok(found.map(|(index, _)| JobId(index.to_string())).collect())
    }

    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError> {
        let mut state = self.0.borrow_mut();
        if state.fails(10) {
            return Err(unavailable());
        }
        if state.fails(30) && !state.jobs.is_empty() {
            let count = state.jobs.len();
            let index = state.random.usize(0..count);
            state.jobs[index].is_forgotten = true;
        }
        Ok(jobs.iter().map(|job| state.state(&job.id)).collect())
    }

    fn cancel(&self, job: &Job) -> Result<(), SchedulerError> {
        let mut state = self.0.borrow_mut();
        if state.fails(10) {
            return Err(unavailable());
        }
        let index: usize = job.id.0.parse().expect("the id is one that this scheduler gave");
        if state.knows(&state.jobs[index]) {
            state.jobs[index].is_cancelled = true;
        }
        Ok(())
    }

    fn output(&self, _: &JobName) -> String {
        String::new()
    }

    fn no_output(&self) -> &'static str {
        ""
    }

    fn clean_up(&self, _: &JobName) {}
}

/// Jobs that have nothing but a name.
#[derive(Debug)]
pub(crate) struct BareJobs;

impl JobMaker for BareJobs {
    fn job(&self, name: &JobName, _: &TaskSpec) -> JobRequest {
        JobRequest {
            name: *name,
            command: Vec::new(),
            environment: Vec::new(),
            state: PathBuf::new(),
            cpus: None,
            memory: None,
            longest: Duration::ZERO,
        }
    }

    fn has_secrets(&self) -> bool {
        false
    }

    fn secrets(&self) -> Result<Vec<SecretVariable>, pinfold_host::Refusal> {
        Ok(Vec::new())
    }
}
