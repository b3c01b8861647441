//! Attempts on the nodes of a cluster.
//!
//! A [`Dispatcher`] places each attempt as one job of a [`Scheduler`], and writes the placement down in the store. The job starts
//! a worker on a node, which [claims](PlacedAttempt) exactly that attempt and keeps its lease. So the store decides which job
//! has an attempt and whether a result counts. The queue knows nothing of schedulers, and a scheduler nothing of leases.
//!
//! A job gets nothing that is secret. What the attempt needs comes as a [ticket](TicketKey) through the store.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod dispatcher;
mod jobs;
mod kubernetes;
mod log;
mod placed;
mod placement;
mod scheduler;
mod settings;
mod slurm;
mod ticket;

pub use dispatcher::{
    DispatchError, DispatchEvent, Dispatcher, JOB_LOST, JOB_REFUSED, Publish, Step,
};
pub use jobs::{JobMaker, NodeJobs, stage};
pub use kubernetes::Kubernetes;
pub use log::{LogPage, MOST_LOGGED, has_log, read_log, ship_log};
pub use placed::PlacedAttempt;
pub use placement::{Placement, placement};
pub use scheduler::{
    InvalidRun, Job, JobId, JobName, JobRequest, JobState, RunId, Scheduler, SchedulerError,
};
pub use settings::{ClusterSettings, KubernetesSettings, SettingsError, has_cluster};
pub use slurm::Slurm;
pub use ticket::{SecretVariable, TicketError, TicketKey};

use pinfold_policy::path::is_plain;

/// Returns a text on one line that drives no terminal.
fn plain(text: &str) -> String {
    let letter = |letter: char| if is_plain(letter) { letter } else { ' ' };
    text.trim().chars().map(letter).collect()
}
