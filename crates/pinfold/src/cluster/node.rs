//! What jobs start on nodes: the worker for one attempt, and a look at what is missing.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use parking_lot::Mutex;
use pinfold_attempt::{LocalEngine, log_of};
use pinfold_cluster::{JobName, PlacedAttempt, RunId, TicketError, TicketKey, placement, ship_log};
use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::limits::{ByteSize, WallTime};
use pinfold_policy::settings::FlagLimits;
use pinfold_session::prepare::SettingsFiles;
use pinfold_tasks::{
    AttemptQueue, Claimed, Completion, Ending, Engine, Failure as TaskFailure, Stop, TaskId, Until,
    Worker, WorkerEvent, WorkerSettings,
};
use pinfold_terminal::notify;
use serde_json::json;

use super::site::shared_queue;
use crate::doctor;
use crate::exit::Failure;
use crate::print;
use crate::task_queue::{self, TaskQueue};
use crate::work::{Origin, SHARED_HEARTBEAT, report, wait_for_signal};

/// How long an attempt waits for its secrets, and a job for a store that is away.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the worker waits before it asks again for what the store did not answer.
const PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

#[derive(Debug, Args)]
pub(crate) struct NodeArgs {
    /// How long the attempt is this node's after it was last heard of
    #[arg(long)]
    lease: WallTime,
    /// The task
    task: TaskId,
    /// The attempt
    attempt: u32,
    /// Which submission this job is
    run: RunId,
    #[command(flatten)]
    allocation: AllocationArgs,
}

/// What the scheduler says of this job and its part of the node.
#[derive(Debug, Args)]
pub(crate) struct AllocationArgs {
    /// The job's id
    #[arg(long)]
    job: Option<String>,
    /// The memory that it has
    #[arg(long)]
    memory: Option<ByteSize>,
}

/// Works on the attempt of this job, if it is still the job's.
pub(super) fn work(
    args: &NodeArgs,
    places: &Places,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let signals = pinfold_host::sys::stop_events().map_err(Failure::new)?;
    let name = JobName { task: args.task, attempt: args.attempt, run: args.run };
    // Otherwise a store that is away for a minute would cost an attempt at each task whose job begins then.
    let queue = shared_queue(places, PATIENCE)?;
    let Some(placed) = placement(&queue, &name)? else {
        notify!("pinfold: {name}: it was given up before this job began");
        return Ok(ExitCode::SUCCESS);
    };
    let key = placed.has_secrets.then(TicketKey::generate).transpose().map_err(Failure::new)?;
    let source = PlacedAttempt::new(&queue, name, key.as_ref().map(TicketKey::public));
    let rules = task_queue::admission(&queue, places, None)?;
    let engine = LocalEngine::new(places.clone(), launcher.clone(), queue.store().variables());
    // Its CPUs are for the scheduler to enforce: a user seldom has a control group for them in a job.
    let share = FlagLimits { memory: args.allocation.memory, ..FlagLimits::default() };
    let (local, key) = (engine.admitting(rules).with_share(share), Mutex::new(key));
    let engine = NodeEngine { local, queue: &queue, places, name, key };
    let lease = args.lease.duration();
    let settings = WorkerSettings {
        ttl: lease,
        heartbeat: SHARED_HEARTBEAT.min(lease / 3),
        idle: PAUSE,
        ..WorkerSettings::new(&worker_name(&args.allocation))
    };
    let (stop, done) = (Stop::new().map_err(Failure::new)?, Stop::new().map_err(Failure::new)?);
    let observer = |event: &WorkerEvent<'_>| report(event, Origin::Here);
    let worker = Worker {
        source: &source,
        engine: &engine,
        settings,
        until: Until::Once,
        stop: &stop,
        observer: &observer,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if wait_for_signal(&signals, &done) {
                notify!("pinfold: ending; the task is given back");
                stop.set();
            }
        });
        let _ = worker.work(1);
        done.set();
    });
    if let Some(why) = source.refusal() {
        notify!("pinfold: {name}: not worked on: {why}");
    }
    // Whether the attempt succeeded is in the store.
    Ok(ExitCode::SUCCESS)
}

/// Returns the name of this job's worker, for people.
fn worker_name(allocation: &AllocationArgs) -> String {
    let node = node();
    match &allocation.job {
        Some(job) => format!("{node}, job {job}"),
        None => node,
    }
}

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Carries out the attempt on this node, with its secrets, and sends its log to the store.
struct NodeEngine<'a> {
    local: LocalEngine,
    queue: &'a TaskQueue,
    places: &'a Places,
    name: JobName,
    /// What opens the ticket, until it is used; none if the attempt gets no secrets.
    key: Mutex<Option<TicketKey>>,
}

impl Engine for NodeEngine<'_> {
    fn carry_out(&self, claimed: &Claimed, stop: &Stop, queue: &dyn AttemptQueue) -> Ending {
        let key = self.key.lock().take();
        let secrets = key.map(|key| key.wait(&self.name, self.queue, stop, PATIENCE)).transpose();
        let secrets = match secrets {
            Ok(secrets) => secrets.unwrap_or_default(),
            Err(TicketError::Stopped) => return Ending::Stopped,
            Err(error) => return failed("no_secrets", &error.to_string()),
        };
        let done = match Stop::new() {
            Ok(done) => done,
            Err(error) => return failed("executor_threw", &error.to_string()),
        };
        let variables: Vec<(&str, &str)> =
            secrets.iter().map(|secret| (secret.name.as_str(), secret.value.as_str())).collect();
        let log = log_of(self.places, claimed.holder.task, claimed.holder.attempt);
        std::thread::scope(|scope| {
            scope.spawn(|| ship_log(&log, self.queue, &claimed.holder, &done));
            let ending = self.local.carry_out_with(claimed, stop, queue, &variables);
            // The log is sent to its end while the attempt is still this worker's.
            done.set();
            ending
        })
    }

    fn accepted(&self, claimed: &Claimed, completion: &Completion) -> Result<(), Refusal> {
        self.local.accepted(claimed, completion)
    }
}

/// Returns the end of an attempt that this node could not begin. Another one may.
fn failed(code: &str, message: &str) -> Ending {
    Ending::Failed(TaskFailure { retryable: Some(true), ..TaskFailure::new(code, message) })
}

/// Prints what is missing on this node, as JSON.
pub(super) fn probe(places: &Places, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let said = |failure: Failure| failure.into_error();
    let boundary = doctor::obstacle(places, launcher).unwrap_or_else(|error| Some(said(error)));
    let store = shared_queue(places, Duration::ZERO).err().map(said);
    let rules = SettingsFiles::read(places).map_err(Failure::from).and_then(|files| {
        files.own().map(|own| own.task_rules.repositories.len()).map_err(Failure::from)
    });
    print::json_line(&json!({
        "node": node(),
        "kernel": rustix::system::uname().release().to_string_lossy(),
        "version": env!("CARGO_PKG_VERSION"),
        "boundary": boundary,
        "store": store,
        "repositories": rules.unwrap_or(0),
    }))?;
    Ok(ExitCode::SUCCESS)
}
