//! A worker of one queue: it claims tasks, has an engine carry them out, and keeps its leases until they end.

mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use crate::engine::{Ending, Engine, Stop, boot_time};
use crate::failure::Failure;
use crate::id::TaskId;
use crate::inquiry::{AttemptQueue, Inquiry, Reply};
use crate::queue::{Claimed, NewMessage};
use crate::record::Heartbeat;
use crate::source::Source;

pub use machine::{Action, Answer, Request, WorkerMachine, WorkerSettings};

/// How long a worker whose lease ended while it reported a result asks whether the result counts, and how often.
const VERDICT: Duration = Duration::from_secs(60);
const VERDICT_PAUSE: Duration = Duration::from_secs(1);
/// How long it waits for an event at least and at most: whether it is to end is asked in between.
const SHORTEST: Duration = Duration::from_millis(1);
const LOOK: Duration = Duration::from_millis(200);

/// When a worker ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After one task, or if nothing is queued.
    Once,
    /// When nothing is queued, and nothing runs here that others wait for.
    Drained,
    /// Never.
    Stopped,
}

/// What a worker reports to the user or program that watches it.
#[derive(Debug)]
pub enum WorkerEvent<'a> {
    /// It begins an attempt.
    Begins(&'a Claimed),
    /// A line about an attempt.
    Progress(TaskId, &'a str),
    /// The queue accepted the result. What the user has to know of it.
    Completed(&'a Claimed, Option<&'a str>),
    /// The attempt failed.
    Failed(&'a Claimed, &'a Failure),
    /// The attempt was ended: the task was cancelled, or the lease was lost.
    Lost(&'a Claimed, &'a str),
    /// The task was given back, because the worker ends.
    GivenBack(&'a Claimed),
    /// The store cannot be used at the moment.
    Trouble(&'a str),
}

/// How many attempts ended, and how.
#[derive(Debug, Default)]
pub struct Tally {
    /// With a result that was accepted.
    pub completed: AtomicUsize,
    /// Otherwise.
    pub others: AtomicUsize,
    running: AtomicUsize,
}

/// A worker, shared by its jobs.
pub struct Worker<'a, S, E> {
    /// Where tasks come from.
    pub source: &'a S,
    /// What carries out attempts.
    pub engine: &'a E,
    /// How it works.
    pub settings: WorkerSettings,
    /// When it ends by itself.
    pub until: Until,
    /// Set when it is to end.
    pub stop: &'a Stop,
    /// What watches it.
    pub observer: &'a (dyn Fn(&WorkerEvent<'_>) + Sync),
}

/// The source of tasks, for one attempt.
struct QueueOf<'a, 'env, S, E> {
    worker: &'a Worker<'env, S, E>,
    claimed: &'a Claimed,
}

impl<S: Source, E: Engine> AttemptQueue for QueueOf<'_, '_, S, E> {
    fn progress(&self, line: &str) {
        self.worker.progress(self.claimed, line);
    }

    fn inquire(&self, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.worker.source.inquire(&self.claimed.holder, inquiry, content)
    }
}

/// What a job waits for.
enum Event {
    /// An answer, with the reason if it is a refusal.
    Answered(u64, Answer, Option<String>),
    Ended(Ending),
}

impl<S: Source, E: Engine> Worker<'_, S, E> {
    /// Works with so many jobs at once until it is to end, and returns how many attempts ended.
    #[must_use]
    pub fn work(&self, jobs: usize) -> Tally {
        let tally = Tally::default();
        std::thread::scope(|scope| {
            for job in 0..jobs.max(1) {
                let tally = &tally;
                scope.spawn(move || Job::new(self, tally, job, scope).run());
            }
        });
        tally
    }

    /// Asks the source. A refusal comes with its reason.
    fn ask(&self, request: &Request) -> (Answer, Option<String>) {
        match self.source.ask(request, self.settings.ttl) {
            Ok(answer) => (answer, None),
            Err(denied) => {
                if denied.is_trouble {
                    (self.observer)(&WorkerEvent::Trouble(&denied.reason));
                }
                (denied.answer, Some(denied.reason))
            }
        }
    }

    /// Passes on a line about an attempt, and keeps it with the task.
    fn progress(&self, claimed: &Claimed, line: &str) {
        (self.observer)(&WorkerEvent::Progress(claimed.holder.task, line));
        let message = NewMessage {
            at: None,
            kind: "info".to_owned(),
            payload: serde_json::json!({ "text": line }).to_string(),
        };
        self.source.report(&claimed.holder, &[message]);
    }

    /// Returns what the tokens of a job come from.
    fn seed(&self, job: usize) -> u64 {
        let mut bytes = [0; 8];
        let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        match filled {
            Ok(8) => u64::from_ne_bytes(bytes),
            // Another process has another id and another time.
            _ => boot_time().as_nanos() as u64 ^ u64::from(std::process::id()) << 32 ^ job as u64,
        }
    }
}

/// One of the jobs: a state machine, the thread that asks the queue for it, and an attempt.
struct Job<'scope, 'env, S, E> {
    worker: &'scope Worker<'env, S, E>,
    tally: &'scope Tally,
    machine: WorkerMachine,
    scope: &'scope Scope<'scope, 'env>,
    events: (Sender<Event>, Receiver<Event>),
    requests: Sender<(u64, Request)>,
    attempt: Option<Attempt>,
    /// Whether an attempt ended here.
    is_done: bool,
    /// Whether the last answer was that nothing is queued.
    is_drained: bool,
    /// When it ends at the latest, once it is to end.
    farewell: Option<Duration>,
}

/// The attempt of a job.
struct Attempt {
    claimed: Arc<Claimed>,
    /// Ends it; none for one that could not be begun.
    stop: Option<Arc<Stop>>,
    /// The result that was reported to the queue; none while it runs.
    report: Option<Request>,
}

impl Attempt {
    fn end(&self) {
        self.stop.iter().for_each(|stop| stop.set());
    }
}

impl<'scope, 'env, S: Source, E: Engine> Job<'scope, 'env, S, E> {
    fn new(
        worker: &'scope Worker<'env, S, E>,
        tally: &'scope Tally,
        job: usize,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Self {
        let mut settings = worker.settings.clone();
        settings.name = format!("{}-{}", settings.name, job + 1);
        let (requests, asked) = channel::<(u64, Request)>();
        let events = channel();
        let answers = events.0.clone();
        // A store that does not answer must not keep the job from ending its attempt in time.
        scope.spawn(move || {
            for (call, request) in asked {
                let (answer, reason) = worker.ask(&request);
                if answers.send(Event::Answered(call, answer, reason)).is_err() {
                    return;
                }
            }
        });
        Self {
            worker,
            tally,
            machine: WorkerMachine::new(settings, fastrand::Rng::with_seed(worker.seed(job))),
            scope,
            events,
            requests,
            attempt: None,
            is_done: false,
            is_drained: false,
            farewell: None,
        }
    }

    fn run(mut self) {
        loop {
            if self.farewell.is_none() && self.worker.stop.is_set() {
                self.farewell = Some(boot_time() + self.worker.settings.farewell);
                self.attempt.iter().for_each(Attempt::end);
            }
            if self.is_over() {
                return self.report_unanswered();
            }
            // One that ends asks for nothing new.
            if self.farewell.is_none() || self.machine.is_busy() {
                let actions = self.machine.step(boot_time());
                self.act(actions, "its lease is over");
            }
            let left = self.machine.due().saturating_sub(boot_time());
            match self.events.1.recv_timeout(left.clamp(SHORTEST, LOOK)) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn is_over(&self) -> bool {
        let is_free = self.attempt.is_none() && !self.machine.is_busy();
        let runs = self.attempt.as_ref().is_some_and(|attempt| attempt.report.is_none());
        if let Some(farewell) = self.farewell {
            return is_free || !runs && farewell <= boot_time();
        }
        match self.worker.until {
            Until::Once => is_free && (self.is_done || self.is_drained),
            // What others wait for may run in another job.
            Until::Drained => {
                is_free && self.is_drained && self.tally.running.load(Ordering::SeqCst) == 0
            }
            Until::Stopped => false,
        }
    }

    /// Says that the queue did not answer what was reported before the worker had to end.
    fn report_unanswered(&mut self) {
        let Some(Attempt { claimed, report: Some(report), .. }) = self.attempt.take() else {
            return;
        };
        let why = match report {
            Request::Complete(..) => "the worker ended before the queue answered its result",
            _ => "the worker ended before the queue took the task back",
        };
        (self.worker.observer)(&WorkerEvent::Lost(&claimed, why));
        self.leave(false);
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Answered(call, answer, reason) => {
                let mut why = reason.unwrap_or_else(|| "its lease is over".to_owned());
                match &answer {
                    Answer::Claimed(claimed) => {
                        self.is_drained = claimed.is_none();
                        let more = usize::from(claimed.is_some());
                        self.tally.running.fetch_add(more, Ordering::SeqCst);
                    }
                    Answer::Heartbeat(Heartbeat::Cancelled(reason)) => {
                        why = format!("the task was cancelled: {reason}");
                    }
                    Answer::Settled => self.settled(),
                    Answer::Heartbeat(Heartbeat::Renewed(_))
                    | Answer::Transient
                    | Answer::Refused => {}
                }
                let actions = self.machine.take(call, answer, boot_time());
                self.act(actions, &why);
            }
            Event::Ended(ending) => {
                let Some(attempt) = &mut self.attempt else { return };
                let holder = attempt.claimed.holder;
                let request = match ending {
                    Ending::Completed(completion) => Request::Complete(holder, completion),
                    Ending::Failed(failure) => Request::Fail(holder, failure),
                    Ending::Stopped => Request::Abort(holder),
                };
                attempt.report = Some(request.clone());
                if self.machine.finished(&holder) {
                    let actions = self.machine.report(request, boot_time());
                    self.act(actions, "its lease is over");
                }
            }
        }
    }

    /// Does what the state machine wants, and ends an attempt that it holds no more.
    fn act(&mut self, actions: Vec<Action>, why: &str) {
        for action in actions {
            match action {
                // The thread that asks ends after this one.
                Action::Send { call, request } => drop(self.requests.send((call, request))),
                Action::Start(claimed) => self.start(*claimed),
                // As below.
                Action::Stop(_) => {}
            }
        }
        if self.attempt.is_some() && !self.machine.is_busy() {
            self.lose(why);
        }
    }

    fn start(&mut self, claimed: Claimed) {
        let claimed = Arc::new(claimed);
        let (worker, ended) = (self.worker, self.events.0.clone());
        (worker.observer)(&WorkerEvent::Begins(&claimed));
        let stop = Stop::new().map(Arc::new);
        let its_stop = stop.as_ref().ok().cloned();
        self.attempt =
            Some(Attempt { claimed: Arc::clone(&claimed), stop: its_stop, report: None });
        let is_ending = self.farewell.is_some();
        self.scope.spawn(move || {
            let queue = QueueOf { worker, claimed: &claimed };
            let ending = match &stop {
                _ if is_ending => Ending::Stopped,
                Ok(stop) => worker.engine.carry_out(&claimed, stop, &queue),
                Err(error) => Ending::Failed(Failure::new("executor_threw", error.to_string())),
            };
            drop(ended.send(Event::Ended(ending)));
        });
    }

    /// Ends the attempt, whose result is not wanted any more.
    fn lose(&mut self, why: &str) {
        if self.counts() {
            return self.settled();
        }
        let Some(attempt) = self.attempt.take() else { return };
        attempt.end();
        // The next task is not begun before nothing of this one runs.
        while attempt.report.is_none() {
            if let Ok(Event::Ended(_)) | Err(_) = self.events.1.recv() {
                break;
            }
        }
        (self.worker.observer)(&WorkerEvent::Lost(&attempt.claimed, why));
        self.leave(false);
    }

    /// Returns whether the queue has accepted a result whose answer did not come in time: then this worker alone knows
    /// that it is to be published.
    fn counts(&self) -> bool {
        let report = self.attempt.as_ref().and_then(|attempt| attempt.report.as_ref());
        let Some(report @ Request::Complete(..)) = report else { return false };
        let end = boot_time() + VERDICT;
        loop {
            match self.worker.source.ask(report, self.worker.settings.ttl) {
                Ok(answer) => return matches!(answer, Answer::Settled),
                Err(denied) if matches!(denied.answer, Answer::Transient) => {}
                Err(_) => return false,
            }
            if self.worker.stop.is_set() || boot_time() >= end {
                return false;
            }
            std::thread::sleep(VERDICT_PAUSE);
        }
    }

    /// Notes that the queue has accepted what the job reported.
    fn settled(&mut self) {
        let Some(Attempt { claimed, report: Some(report), .. }) = self.attempt.take() else {
            return;
        };
        let observer = self.worker.observer;
        match &report {
            Request::Complete(_, completion) => {
                let note = self
                    .worker
                    .engine
                    .accepted(&claimed, completion)
                    .err()
                    .map(|why| why.to_string());
                observer(&WorkerEvent::Completed(&claimed, note.as_deref()));
            }
            Request::Fail(_, failure) => observer(&WorkerEvent::Failed(&claimed, failure)),
            _ => observer(&WorkerEvent::GivenBack(&claimed)),
        }
        self.leave(matches!(report, Request::Complete(..)));
    }

    fn leave(&mut self, completed: bool) {
        let count = if completed { &self.tally.completed } else { &self.tally.others };
        count.fetch_add(1, Ordering::SeqCst);
        self.tally.running.fetch_sub(1, Ordering::SeqCst);
        self.is_done = true;
    }
}

#[cfg(test)]
mod tests;
