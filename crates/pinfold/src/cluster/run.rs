//! `pinfold cluster run`: places tasks, and looks after their jobs.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pinfold_attempt::LocalEngine;
use pinfold_cluster::{DispatchError, DispatchEvent, Dispatcher, JobName, Step};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::sys;
use pinfold_tasks::{Completion, Listing, Status, TaskSpec};
use pinfold_terminal::notify;

use super::RunArgs;
use super::site::{Site, shared_queue};
use crate::exit::Failure;
use crate::spec_loop::is_asked_to_end;
use crate::task;
use crate::task_queue::{self, TaskQueue};
use crate::work::plain;

/// How long it waits between two looks at the scheduler, at least,
const SHORTEST: Duration = Duration::from_millis(500);
/// at most while something is placed,
const PLACED: Duration = Duration::from_secs(2);
/// and at most while nothing is. It waits longer while nothing changes.
const IDLE: Duration = Duration::from_secs(5);
/// How long it waits for a store that is away when it begins.
const PATIENCE: Duration = Duration::from_secs(60);
/// What jobs start.
const COMMAND: &[&str] = &["cluster", "work"];

/// Places queued tasks until nothing is queued and nothing is placed.
pub(super) fn run(
    args: &RunArgs,
    places: &Places,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let queue = shared_queue(places, PATIENCE)?;
    let site = Site::find(places, launcher)?;
    let jobs = site.jobs(COMMAND)?;
    let signals = sys::stop_events().map_err(Failure::new)?;
    let most = site.settings.most;
    let engine = LocalEngine::new(places.clone(), launcher.clone(), queue.store().variables());
    let engine = engine.admitting(task_queue::admission(&queue, places, None)?);
    let publish = |name: &JobName, spec: &TaskSpec, completion: &Completion| {
        engine.publish(name.task, name.attempt, spec, completion)
    };
    let mut dispatcher = Dispatcher::new(&queue, &*site.scheduler, &jobs, most, &report);
    // A pod may see another repository by the same path.
    if site.settings.kubernetes.is_none() {
        dispatcher = dispatcher.publishing(&publish);
    }
    let (begun, mut pause) = (Instant::now(), SHORTEST);
    loop {
        let step = match dispatcher.step(begun.elapsed()) {
            Ok(step) => step,
            // What is placed goes on while the store is away.
            Err(DispatchError::Queue(error)) if error.is_transient() => {
                report(&DispatchEvent::Trouble(&error.to_string()));
                Step { placed: 1, ..Step::default() }
            }
            Err(error) => {
                let hint = match &error {
                    DispatchError::Queue(error) => error.hint(),
                    DispatchError::Refused(_) => {
                        Some("see `options` in cluster.toml, and `limits` of the task".to_owned())
                    }
                    DispatchError::Random(_) => None,
                };
                return Err(Failure::new(error).hint(hint));
            }
        };
        if !args.poll && step.placed == 0 && !step.has_changed && is_drained(&queue)? {
            return Ok(ExitCode::SUCCESS);
        }
        let longest = if step.placed > 0 { PLACED } else { IDLE };
        let is_busy = step.has_changed || step.is_urgent;
        pause = if is_busy { SHORTEST } else { (pause * 2).min(longest) };
        if is_asked_to_end(&signals, pause) {
            if step.live > 0 {
                notify!(
                    "pinfold: {} jobs go on; `pinfold cluster run` looks after them",
                    step.live
                );
            }
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Returns whether no task is queued.
fn is_drained(queue: &TaskQueue) -> Result<bool, Failure> {
    let listing = Listing { statuses: vec![Status::Queued], limit: 1, ..Listing::default() };
    Ok(queue.list(&listing)?.tasks.is_empty())
}

fn report(event: &DispatchEvent<'_>) {
    let id = |name: &JobName| format!("{}: attempt {}", task::short(name.task), name.attempt);
    match event {
        DispatchEvent::Placed(name, job) => notify!("pinfold: {}: job {job}", id(name)),
        DispatchEvent::Found(name, job) => notify!("pinfold: {}: found job {job}", id(name)),
        DispatchEvent::Lost(name, why) => notify!("pinfold: {}: lost: {}", id(name), plain(why)),
        DispatchEvent::Cancelled(name, why) => {
            notify!("pinfold: {}: job cancelled: {}", id(name), plain(why));
        }
        DispatchEvent::Unpublished(name, why) => {
            notify!("pinfold: {}: note: {}", id(name), plain(why));
        }
        DispatchEvent::Trouble(what) => notify!("pinfold: {}", plain(what)),
    }
}
