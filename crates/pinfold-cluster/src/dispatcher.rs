//! The dispatcher: it places attempts as jobs of a scheduler, and cleans up after them.
//!
//! It holds no lease and reports no result. All that it knows is in the store, so it may be ended at any time, and another
//! one goes on. Where the store and the scheduler disagree, the store is right:
//!
//! - An attempt whose job is gone before it claimed the attempt has failed (`job_lost`), and another one is placed.
//! - An attempt that a job has claimed lives as long as its lease, whatever the scheduler says of the job.
//! - A job whose attempt is over, or belongs to somebody else, is cancelled.
//! - A result that was accepted is published, also if its job was killed before it had done so.

mod upkeep;

use pinfold_host::Refusal;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use pinfold_tasks::{Candidate, Completion, Queue, QueueError, Store, TaskId, TaskSpec};

use crate::jobs::JobMaker;
use crate::placement::{Placement, placements};
use crate::scheduler::{
    Job, JobId, JobName, JobRequest, JobState, RunId, Scheduler, SchedulerError,
};

/// The code of the failure of an attempt whose job is gone.
pub const JOB_LOST: &str = "job_lost";
/// The code of the failure of an attempt whose job the scheduler does not take.
pub const JOB_REFUSED: &str = "job_refused";

/// What a dispatcher reports to its user.
#[derive(Debug)]
pub enum DispatchEvent<'a> {
    /// A job was submitted.
    Placed(&'a JobName, &'a JobId),
    /// A job was found that an earlier call had submitted.
    Found(&'a JobName, &'a JobId),
    /// The job of an attempt is gone, and the attempt has failed.
    Lost(&'a JobName, &'a str),
    /// A job was cancelled, for this reason.
    Cancelled(&'a JobName, &'a str),
    /// The branch of a task could not be moved to its accepted result, for this reason.
    Unpublished(&'a JobName, &'a str),
    /// The scheduler cannot be used at the moment.
    Trouble(&'a str),
}

/// What a step of a dispatcher did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Whether something was placed, found, lost, cancelled or removed.
    pub has_changed: bool,
    /// Attempts that are placed, and whose jobs have not ended.
    pub live: usize,
    /// Attempts that were placed when it began.
    pub placed: usize,
    /// Whether a job runs that is about to need secrets.
    pub is_urgent: bool,
}

/// Why a dispatcher cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DispatchError {
    /// The store fails.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// The scheduler takes no job at all.
    #[error("the scheduler takes no job: {0}")]
    Refused(String),
    /// The system has no random numbers.
    #[error("no random numbers: {0}")]
    Random(#[from] std::io::Error),
}

/// Publishes the accepted result of a job, as its worker does. Returns why it did not.
pub type Publish<'a> = dyn Fn(&JobName, &TaskSpec, &Completion) -> Result<(), Refusal> + 'a;

/// What a dispatcher works with.
pub struct Dispatcher<'a, S, E: ?Sized> {
    queue: &'a Queue<S>,
    scheduler: &'a E,
    jobs: &'a dyn JobMaker,
    /// The most attempts that are placed at once.
    most: u32,
    observer: &'a dyn Fn(&DispatchEvent<'_>),
    /// What publishes a result whose job ended before it did.
    publish: Option<&'a Publish<'a>>,
    /// Since when jobs are in a state that they may not stay in, by the clock that [`Self::step`] is given.
    since: HashMap<(JobName, Doubt), Since>,
    /// Whether the scheduler has taken a job.
    has_placed: bool,
    step: Step,
}

/// A state that a job may not stay in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doubt {
    Unplaced,
    Unknown,
    Unclaimed,
    Over,
}

/// Since when a job is in such a state, and when it was seen in it last.
#[derive(Clone, Copy, Debug)]
struct Since {
    first: Duration,
    last: Duration,
}

impl<'a, S: Store, E: Scheduler + ?Sized> Dispatcher<'a, S, E> {
    /// Returns a dispatcher that has at most so many attempts placed at once.
    #[must_use]
    pub fn new(
        queue: &'a Queue<S>,
        scheduler: &'a E,
        jobs: &'a dyn JobMaker,
        most: u32,
        observer: &'a dyn Fn(&DispatchEvent<'_>),
    ) -> Self {
        let (since, has_placed, step) = (HashMap::new(), false, Step::default());
        Self { queue, scheduler, jobs, most, observer, publish: None, since, has_placed, step }
    }

    /// Returns the dispatcher for repositories of this machine: it publishes the result of a job that was killed after
    /// its result was accepted.
    #[must_use]
    pub fn publishing(self, publish: &'a Publish<'a>) -> Self {
        Self { publish: Some(publish), ..self }
    }

    /// Looks after what is placed, and places what can be. `now` is a time of a clock that never runs backwards.
    ///
    /// # Errors
    /// Returns an error if the store fails, or if the scheduler takes no job at all.
    pub fn step(&mut self, now: Duration) -> Result<Step, DispatchError> {
        let (placed, invalid) = placements(self.queue)?;
        self.step = Step { placed: placed.len(), ..Step::default() };
        for key in &invalid {
            self.trouble(&format!("placement {} cannot be read", key.escape_debug()));
        }
        let Some(states) = self.states(&placed) else {
            return Ok(Step { live: placed.len(), ..self.step });
        };
        let found = self.phases(&placed)?;
        for (placement, found) in placed.iter().zip(found) {
            let name = &placement.name;
            self.look_after(name, found, states.get(name), now)?;
        }
        self.since.retain(|_, since| since.last == now);
        self.place(&placed)?;
        Ok(self.step)
    }

    /// Asks the scheduler for the states of all jobs; none if it does not say.
    fn states(&self, placed: &[Placement]) -> Option<HashMap<JobName, JobState>> {
        let jobs: Vec<Job> = placed.iter().filter_map(Placement::job).collect();
        if jobs.is_empty() {
            return Some(HashMap::new());
        }
        match self.scheduler.observe(&jobs) {
            Ok(states) => Some(jobs.iter().map(|job| job.name).zip(states).collect()),
            Err(error) => {
                self.trouble(&error.to_string());
                None
            }
        }
    }

    /// Places attempts until enough are placed.
    fn place(&mut self, placed: &[Placement]) -> Result<(), DispatchError> {
        let live = u32::try_from(self.step.live).unwrap_or(u32::MAX);
        let free = self.most.saturating_sub(live);
        if free == 0 {
            return Ok(());
        }
        let names: HashSet<(TaskId, u32)> =
            placed.iter().map(|Placement { name, .. }| (name.task, name.attempt)).collect();
        let is_placed = |task, attempt| names.contains(&(task, attempt));
        // Those that are placed are still queued until their jobs run.
        let looked_at = live.saturating_add(free);
        let candidates = self.queue.candidates(looked_at, free as usize, &is_placed)?;
        for Candidate { task, attempt, spec } in candidates {
            let name = JobName { task, attempt, run: RunId::generate()? };
            let placement = Placement::new(name, self.jobs.has_secrets());
            if placement.reserve(self.queue)? && !self.submit(&name, &spec)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Submits a job. Returns whether the scheduler can be used.
    fn submit(&mut self, name: &JobName, spec: &TaskSpec) -> Result<bool, DispatchError> {
        let request: JobRequest = self.jobs.job(name, spec);
        self.step.has_changed = true;
        match self.scheduler.submit(&request) {
            Ok(job) => {
                self.has_placed = true;
                self.record(name, &job)?;
                (self.observer)(&DispatchEvent::Placed(name, &job));
                Ok(true)
            }
            // The cluster does not have what it asks for.
            Err(SchedulerError::Refused(why)) if self.has_placed => {
                self.lose(name, JOB_REFUSED, &why)?;
                Ok(true)
            }
            // The settings may be wrong: no task fails for that.
            Err(SchedulerError::Refused(why)) => {
                Placement::remove(name, self.queue)?;
                Err(DispatchError::Refused(why))
            }
            // The job may exist: it is looked for before it is submitted again.
            Err(SchedulerError::Unavailable(why)) => {
                self.step.live += 1;
                self.trouble(&why);
                Ok(false)
            }
        }
    }

    fn record(&mut self, name: &JobName, job: &JobId) -> Result<(), DispatchError> {
        self.step.live += 1;
        self.step.has_changed = true;
        Placement::change(name, self.queue, |placement| placement.id = Some(job.clone()))?;
        Ok(())
    }

    /// Returns whether a job is in a state for so long.
    fn has_lasted(&mut self, name: &JobName, doubt: Doubt, most: Duration, now: Duration) -> bool {
        let since = self.since.entry((*name, doubt)).or_insert(Since { first: now, last: now });
        since.last = now;
        now.saturating_sub(since.first) >= most
    }

    fn trouble(&self, what: &str) {
        (self.observer)(&DispatchEvent::Trouble(what));
    }
}
