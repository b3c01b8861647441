//! `pinfold work`: works on the tasks of the queue, or of a server.

mod remote;

use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use pinfold_attempt::{Admission, Job, Line, LocalEngine, carry_out};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_policy::path::is_plain;
use pinfold_session::prepare;
use pinfold_tasks::{
    Claimed, Lease, Source, Stop, Tally, TaskId, Until, Worker, WorkerEvent, WorkerSettings,
};
use pinfold_tasks_postgres::AnyStore;
use pinfold_terminal::notify;

use crate::exit::Failure;
use crate::task;
use crate::task_queue;

pub(crate) use remote::login;

/// How long a worker waits before it asks for work again, at least and at most.
const POLL: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How often it renews a lease, and learns that a task was cancelled, with a store on this machine
const HEARTBEAT: Duration = Duration::from_secs(5);
/// and with one that many machines share.
pub(crate) const SHARED_HEARTBEAT: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(crate) struct WorkArgs {
    /// Work on one task, and end
    #[arg(long, conflicts_with = "poll")]
    once: bool,
    /// Wait for tasks when there are none, until the worker is ended
    #[arg(long)]
    poll: bool,
    /// How many tasks to work on at once
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// The worker's name, for people; this machine's name and the process's id by default
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    remote: remote::RemoteArgs,
}

/// Works on tasks until nothing is queued; Ctrl-C gives back those that it works on.
pub(crate) fn work(args: &WorkArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let settings = WorkerSettings::new(&name(args));
    let stop = &Stop::new().map_err(Failure::new)?;
    let Some(address) = args.remote.source() else {
        let queue = task_queue::open(&places)?;
        let heartbeat = match queue.store() {
            AnyStore::Local(_) => HEARTBEAT,
            AnyStore::Shared(store, _) => {
                // A `DATABASE_URL` may have been meant for something else.
                notify!("pinfold: the queue is in the database {}", store.address());
                SHARED_HEARTBEAT
            }
        };
        let settings = WorkerSettings { idle: POLL, heartbeat, ..settings };
        let hidden = queue.store().variables();
        let here = prepare::workspace(&places).ok().map(|workspace| workspace.root);
        let here = here.as_ref().map(|root| root.as_path());
        let admission = task_queue::admission(&queue, &places, here)?;
        let engine = LocalEngine::new(places.clone(), launcher.clone(), hidden);
        engine.admitting(admission.clone()).publish_left(&queue, &report_left)?;
        let origin = Origin::Here;
        let site = Site { places: &places, launcher, hidden, origin, admission, stop };
        return site.work(args, settings, &queue, |_| {});
    };
    remote::with_source(&args.remote, address, &places, launcher, stop, |source| {
        let settings = WorkerSettings { heartbeat: Lease::HEARTBEAT, ..settings };
        let hidden = &pinfold_moltnet::VARIABLES;
        // A server says what is to be done, and the template of this machine how.
        let (origin, admission) = (Origin::Server, None);
        let site = Site { places: &places, launcher, hidden, origin, admission, stop };
        site.work(args, settings, source, |done| source.pump(done))
    })
}

/// Where tasks are from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Here,
    Server,
}

/// What a worker works with.
struct Site<'a> {
    places: &'a Places,
    launcher: &'a Launcher,
    /// Variables that log in at the source of tasks.
    hidden: &'static [&'static str],
    origin: Origin,
    /// What tasks may ask for, if others may have written them.
    admission: Option<Admission>,
    /// Set when the worker is to end.
    stop: &'a Stop,
}

impl Site<'_> {
    /// Works on tasks of a source. `aside` runs on a thread of its own until the work is done.
    fn work(
        &self,
        args: &WorkArgs,
        settings: WorkerSettings,
        source: &impl Source,
        aside: impl FnOnce(&Stop) + Send,
    ) -> Result<ExitCode, Failure> {
        let engine = LocalEngine::new(self.places.clone(), self.launcher.clone(), self.hidden);
        let engine = engine.admitting(self.admission.clone());
        let engine = if self.origin == Origin::Here { engine.noting_results() } else { engine };
        let until = match (args.once, args.poll) {
            (true, _) => Until::Once,
            (_, true) => Until::Stopped,
            _ => Until::Drained,
        };
        // Blocked here, so that no other thread takes them.
        let signals = pinfold_host::sys::stop_events().map_err(Failure::new)?;
        let observer = |event: &WorkerEvent<'_>| report(event, self.origin);
        let (engine, observer) = (&engine, &observer);
        let worker = Worker { source, engine, settings, until, stop: self.stop, observer };
        let done = Stop::new().map_err(Failure::new)?;
        let tally = std::thread::scope(|scope| {
            scope.spawn(|| {
                if wait_for_signal(&signals, &done) {
                    notify!("pinfold: ending; tasks that are not done are given back");
                    self.stop.set();
                }
            });
            scope.spawn(|| aside(&done));
            let tally = worker.work(usize::from(args.jobs));
            done.set();
            tally
        });
        Ok(ended(&tally))
    }
}

/// Says what became of the result of a worker that died.
fn report_left(task: TaskId, why: Option<&str>) {
    let id = task::short(task);
    match why {
        None => notify!("pinfold: {id}: published the result of a worker that was killed"),
        Some(why) => notify!("pinfold: {id}: note: {}", plain(why)),
    }
}

fn ended(tally: &Tally) -> ExitCode {
    let completed = tally.completed.load(Ordering::SeqCst);
    let others = tally.others.load(Ordering::SeqCst);
    if completed + others == 0 {
        notify!("pinfold: no task is queued");
    }
    if others == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns whether a signal came before the work was done.
pub(crate) fn wait_for_signal(signals: &std::os::fd::OwnedFd, done: &Stop) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        let mut wanted = [PollFd::new(signals, PollFlags::IN), PollFd::new(done, PollFlags::IN)];
        // Interrupted by nothing that matters.
        if poll(&mut wanted, None).is_err() {
            continue;
        }
        if !wanted[1].revents().is_empty() {
            return false;
        }
        if pinfold_host::sys::next_signal(signals).is_some() {
            return true;
        }
    }
}

fn name(args: &WorkArgs) -> String {
    let machine = || {
        let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
        format!("{machine}-{}", std::process::id())
    };
    args.name.clone().unwrap_or_else(machine)
}

/// Shows the user what a worker does.
pub(crate) fn report(event: &WorkerEvent<'_>, origin: Origin) {
    let id = |claimed: &Claimed| task::short(claimed.holder.task);
    match event {
        WorkerEvent::Begins(claimed) => {
            let attempt = claimed.holder.attempt;
            notify!("pinfold: {}: attempt {attempt}: {}", id(claimed), plain(&claimed.spec.title));
        }
        WorkerEvent::Progress(task, line) => {
            notify!("pinfold: {}: {}", task::short(*task), plain(line))
        }
        WorkerEvent::Completed(claimed, note) => {
            let id = id(claimed);
            match origin {
                Origin::Here => {
                    notify!("pinfold: {id}: completed; `pinfold task show {id}` says how");
                }
                Origin::Server => notify!("pinfold: {id}: completed; branch task/{id}"),
            }
            if let Some(note) = note {
                notify!("pinfold: {id}: note: {}", plain(note));
            }
        }
        WorkerEvent::Failed(claimed, failure) => {
            notify!(
                "pinfold: {}: failed: {}: {}",
                id(claimed),
                failure.code,
                plain(&failure.message)
            );
        }
        WorkerEvent::Lost(claimed, why) => {
            notify!("pinfold: {}: ended: {}", id(claimed), plain(why))
        }
        WorkerEvent::GivenBack(claimed) => notify!("pinfold: {}: given back", id(claimed)),
        WorkerEvent::Trouble(what) => notify!("pinfold: the queue cannot be used: {}", plain(what)),
    }
}

/// Returns a text on one line that drives no terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { ' ' }).collect()
}

/// Carries out the attempt that the worker at standard input asks for. It is what [`LocalEngine`] starts.
pub(crate) fn attempt(launcher: &Launcher) -> Result<ExitCode, Failure> {
    // Longer than any job.
    const LONGEST: u64 = 16 << 20;
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let mut text = String::new();
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).map_err(Failure::new)?;
    let job: Job = serde_json::from_str(&text).map_err(Failure::new)?;
    let mut written = Ok(());
    let mut say = |line: &Line| {
        let text = serde_json::to_string(line).map_err(std::io::Error::from);
        let mut out = std::io::stdout().lock();
        let wrote = text.and_then(|text| writeln!(out, "{text}").and_then(|()| out.flush()));
        if let (Ok(()), Err(error)) = (&written, wrote) {
            written = Err(error);
        }
    };
    let host = Host { places: &places, launcher };
    let last = carry_out(&job, host, &mut say);
    say(&last);
    written.map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
