//! What places jobs on the nodes of a cluster.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use data_encoding::HEXLOWER;
use pinfold_policy::limits::{ByteSize, MilliCpus};
use pinfold_tasks::TaskId;
use rustix::rand::{GetRandomFlags, getrandom};

/// What places jobs on the nodes of a cluster, and watches them: Slurm or Kubernetes. A job is for one attempt. The scheduler
/// decides where and when the job runs; the store decides whether the attempt is the job's, and whether its result counts.
pub trait Scheduler {
    /// Returns its name, for people.
    fn name(&self) -> &'static str;

    /// Submits a job. After an error that is [`SchedulerError::Unavailable`] the job may exist.
    ///
    /// # Errors
    /// Returns an error if the scheduler cannot be asked, or does not take the job.
    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError>;

    /// Returns the jobs of this user with this name and run, also those that have ended, as long as the scheduler knows them.
    ///
    /// # Errors
    /// Returns an error if the scheduler cannot be asked.
    fn find(&self, job: &JobName) -> Result<Vec<JobId>, SchedulerError>;

    /// Returns the jobs of [`Self::find`] for a request whose submission was not answered. Where others can make or change jobs
    /// of this name, they are compared with the request.
    ///
    /// # Errors
    /// Returns the errors of `find`, and a refusal for a job that is not what was submitted.
    fn find_submitted(&self, request: &JobRequest) -> Result<Vec<JobId>, SchedulerError> {
        self.find(&request.name)
    }

    /// Returns the states of jobs, in the same order. A job that has the id and another name or run is another job: a scheduler
    /// that lost its state gives ids again.
    ///
    /// # Errors
    /// Returns an error if the scheduler cannot be asked. Then nothing is known of any job.
    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError>;

    /// Cancels a job. One that has ended stays as it is, and so does another job with its id.
    ///
    /// # Errors
    /// Returns an error if the scheduler cannot be asked.
    fn cancel(&self, job: &Job) -> Result<(), SchedulerError>;

    /// Returns the end of what a job printed before and after its attempt; empty if nothing is known of it.
    fn output(&self, job: &JobName) -> String;

    /// Returns a hint for a job that has ended and whose output is empty.
    fn no_output(&self) -> &'static str;

    /// Removes what is kept of a job that has ended.
    fn clean_up(&self, job: &JobName);
}

/// Which submission of a job is meant. It is no secret: it distinguishes jobs of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunId([u8; 8]);

/// The error for a text that is not the id of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected the 16 hexadecimal digits of a run")]
pub struct InvalidRun;

/// What a job is for, and which submission it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct JobName {
    pub task: TaskId,
    /// The number of the attempt.
    pub attempt: u32,
    pub run: RunId,
}

/// A scheduler's own id of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobId(pub String);

/// A job that was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it is for.
    pub name: JobName,
    /// The scheduler's id.
    pub id: JobId,
}

/// A job that is to be submitted.
#[derive(Clone, Debug)]
pub struct JobRequest {
    /// What it is for.
    pub name: JobName,
    /// The program and its arguments. The scheduler adds what it says of the node: `--job ID` and
    /// `--memory SIZE`, as far as it knows.
    pub command: Vec<OsString>,
    /// All variables that the program gets, besides `XDG_STATE_HOME`.
    pub environment: Vec<(&'static str, OsString)>,
    /// The directory that each node keeps its state below.
    pub state: PathBuf,
    /// The CPUs that it needs.
    pub cpus: Option<MilliCpus>,
    /// The memory that it needs.
    pub memory: Option<ByteSize>,
    /// How long it may take.
    pub longest: Duration,
}

/// What a scheduler says of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not begun.
    Waiting,
    /// It runs, as far as the scheduler knows.
    Running,
    /// It has ended, as the scheduler calls it.
    Ended(String),
    /// The scheduler knows no such job.
    Unknown,
}

/// Why a scheduler does not do what it is asked for.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SchedulerError {
    /// It does not answer, or what it answers cannot be read.
    #[error("{0}")]
    Unavailable(String),
    /// It does not take the job.
    #[error("{0}")]
    Refused(String),
}

impl RunId {
    /// Returns a new id.
    ///
    /// # Errors
    /// Returns the error of `getrandom(2)`.
    pub fn generate() -> io::Result<Self> {
        let mut bytes = [0; 8];
        // Up to 256 bytes come at once (getrandom(2)).
        match getrandom(&mut bytes, GetRandomFlags::empty())? {
            8 => Ok(Self(bytes)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl FromStr for RunId {
    type Err = InvalidRun;

    fn from_str(text: &str) -> Result<Self, InvalidRun> {
        let bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| InvalidRun)?;
        bytes.try_into().map(Self).map_err(|_| InvalidRun)
    }
}

impl JobName {
    /// Returns what its notes in the store are called.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.task, self.attempt)
    }
}

impl fmt::Display for JobName {
    /// Shows the name that a job has in the scheduler: `pf-<task>-<attempt>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pf-{}-{}", self.task, self.attempt)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
