//! What a worker does and when, by values alone: it asks for work, claims, renews its lease, stops by itself, and
//! repeats what is not answered.

use std::collections::HashMap;
use std::time::Duration;

use crate::attempt::Completion;
use crate::failure::Failure;
use crate::id::Token;
use crate::lease::Lease;
use crate::queue::{Claimed, Holder, QueueError};
use crate::record::{Claim, Heartbeat};

/// How long a worker waits for an answer before it asks again, with leases of the usual length.
const PATIENCE: Duration = Duration::from_secs(10);
/// The part of a short lease that it waits instead: a store that is away for a moment costs no attempt.
const PATIENCE_PARTS: u32 = 10;

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name, for people.
    pub name: String,
    /// How long it wants leases to last.
    pub ttl: Duration,
    /// How often it renews one.
    pub heartbeat: Duration,
    /// How long it waits before it asks for work again, at least and at most. It waits longer each time.
    pub idle: (Duration, Duration),
    /// How long it tries to report a result, or to give its task back, once it is to end.
    pub farewell: Duration,
}

impl WorkerSettings {
    /// Returns the usual settings of a worker.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            ttl: Lease::TTL,
            heartbeat: Lease::HEARTBEAT,
            idle: (Duration::from_secs(2), Duration::from_secs(30)),
            farewell: Duration::from_secs(10),
        }
    }
}

/// What a worker asks the queue for.
#[derive(Clone, Debug)]
pub enum Request {
    /// A task to work on.
    Claim(Claim),
    /// To keep its lease.
    Heartbeat(Holder),
    /// To accept a result.
    Complete(Holder, Completion),
    /// To note that the attempt failed.
    Fail(Holder, Failure),
    /// To take the task back.
    Abort(Holder),
}

/// What the queue answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A task, or none.
    Claimed(Option<Box<Claimed>>),
    /// The lease was renewed, or the task was cancelled.
    Heartbeat(Heartbeat),
    /// A result was accepted, now or before.
    Settled,
    /// It may succeed a moment later.
    Transient,
    /// It is refused.
    Refused,
}

impl Answer {
    /// Returns the answer that an error is.
    #[must_use]
    pub fn of_error(error: &QueueError) -> Self {
        if error.is_transient() { Self::Transient } else { Self::Refused }
    }
}

/// What is to be done for a worker.
#[derive(Debug)]
pub enum Action {
    /// Ask the queue, and return the answer with this number.
    Send {
        call: u64,
        /// What to ask.
        request: Request,
    },
    /// Begin the attempt.
    Start(Box<Claimed>),
    /// End the attempt at once. Its result is not wanted any more.
    Stop(Holder),
}

/// The state machine of a worker. All times are of its own clock, which measures durations (see [`Lease`]).
#[derive(Debug)]
pub struct WorkerMachine {
    settings: WorkerSettings,
    state: State,
    /// When the calls that are not answered were sent.
    calls: HashMap<u64, Duration>,
    next_call: u64,
    random: fastrand::Rng,
}

#[derive(Debug)]
enum State {
    Idle { until: Duration, pause: Duration },
    Claiming { claim: Claim, first: Duration, again: Duration, pause: Duration },
    Working(Box<Work>),
}

#[derive(Debug)]
struct Work {
    holder: Holder,
    /// Until it is begun.
    claimed: Option<Box<Claimed>>,
    lease: Lease,
    runs: bool,
    heartbeat: Duration,
    report: Option<(Request, Duration)>,
}

impl WorkerMachine {
    /// Returns a worker that has nothing to do yet. Tokens and pauses come from `random`, which has to be seeded
    /// differently for each worker.
    #[must_use]
    pub fn new(settings: WorkerSettings, random: fastrand::Rng) -> Self {
        let pause = settings.idle.0;
        let state = State::Idle { until: Duration::ZERO, pause };
        Self { settings, state, calls: HashMap::new(), next_call: 0, random }
    }

    /// Begins again, and knows nothing of what was before.
    pub fn reset(&mut self) {
        self.calls.clear();
        self.state = self.idle(Duration::ZERO);
    }

    /// Returns when it has something to do.
    #[must_use]
    pub fn due(&self) -> Duration {
        match &self.state {
            State::Idle { until, .. } => *until,
            State::Claiming { again, .. } => *again,
            State::Working(work) => {
                let report = work.report.as_ref().map(|(_, at)| *at);
                let soonest = work.heartbeat.min(work.lease.stop());
                report.map_or(soonest, |report| soonest.min(report))
            }
        }
    }

    /// Returns what is to be done at a time.
    #[must_use]
    pub fn step(&mut self, now: Duration) -> Vec<Action> {
        let mut actions = Vec::new();
        let patience = PATIENCE.min(self.settings.ttl / PATIENCE_PARTS);
        match &mut self.state {
            State::Idle { until, pause } if *until <= now => {
                let pause = *pause;
                let claim = Claim {
                    token: Token::from_random(self.random.u128(..).to_le_bytes()),
                    worker: self.settings.name.clone(),
                    ttl: self.settings.ttl,
                };
                actions.push(self.send(Request::Claim(claim.clone()), now));
                self.state = State::Claiming { claim, first: now, again: now + patience, pause };
            }
            State::Claiming { first, .. } if *first + self.settings.ttl <= now => {
                self.state = self.idle(now);
            }
            State::Claiming { claim, again, .. } if *again <= now => {
                *again = now + patience;
                let request = Request::Claim(claim.clone());
                actions.push(self.send(request, now));
            }
            State::Working(work) if work.lease.stop() <= now => self.give_up(now, &mut actions),
            State::Working(work) => {
                let mut requests = Vec::new();
                if work.heartbeat <= now {
                    work.heartbeat = now + patience;
                    requests.push(Request::Heartbeat(work.holder));
                }
                if let Some((report, at)) = &mut work.report
                    && *at <= now
                {
                    *at = now + patience;
                    requests.push(report.clone());
                }
                actions.extend(requests.into_iter().map(|request| self.send(request, now)));
            }
            State::Idle { .. } | State::Claiming { .. } => {}
        }
        actions
    }

    /// Takes an answer, and returns what is to be done. What was asked in another state is of no use any more.
    #[must_use]
    pub fn take(&mut self, call: u64, answer: Answer, now: Duration) -> Vec<Action> {
        let Some(sent) = self.calls.get(&call).copied() else { return Vec::new() };
        let mut actions = Vec::new();
        match (&mut self.state, answer) {
            (State::Claiming { .. }, Answer::Claimed(Some(claimed))) => {
                let WorkerSettings { ttl, heartbeat, .. } = self.settings;
                self.calls.clear();
                self.state = State::Working(Box::new(Work {
                    holder: claimed.holder,
                    lease: Lease::new(sent, claimed.lasts, ttl, heartbeat),
                    claimed: Some(claimed),
                    runs: false,
                    heartbeat: now,
                    report: None,
                }));
                actions.extend(self.step(now));
            }
            (State::Claiming { .. }, Answer::Claimed(None) | Answer::Refused) => self.rest(now),
            (State::Working(work), Answer::Heartbeat(Heartbeat::Renewed(lasts))) => {
                work.lease.renew(sent, lasts);
                work.heartbeat = work.lease.next_heartbeat();
                if let Some(claimed) = work.claimed.take() {
                    work.runs = true;
                    actions.push(Action::Start(claimed));
                }
            }
            (State::Working(_), Answer::Heartbeat(Heartbeat::Cancelled(_)) | Answer::Refused) => {
                self.give_up(now, &mut actions);
            }
            (State::Working(_), Answer::Settled) => self.give_up(now, &mut actions),
            // It is asked again in time, or this is the answer to a repetition.
            _ => {}
        }
        actions
    }

    /// Notes that nothing of the attempt runs any more. Returns whether its result is still wanted.
    pub fn finished(&mut self, holder: &Holder) -> bool {
        match &mut self.state {
            State::Working(work) if work.holder == *holder && work.runs => {
                work.runs = false;
                true
            }
            _ => false,
        }
    }

    /// Begins to report a result, and returns what is to be done.
    #[must_use]
    pub fn report(&mut self, request: Request, now: Duration) -> Vec<Action> {
        if let State::Working(work) = &mut self.state {
            work.report = Some((request, now));
        }
        self.step(now)
    }

    /// Returns the attempt that it has begun and not finished.
    #[must_use]
    pub fn works_on(&self) -> Option<Holder> {
        match &self.state {
            State::Working(work) if work.runs => Some(work.holder),
            _ => None,
        }
    }

    /// Returns whether it holds a task, or may have claimed one.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !matches!(self.state, State::Idle { .. })
    }

    fn give_up(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if let State::Working(work) = &self.state
            && work.runs
        {
            actions.push(Action::Stop(work.holder));
        }
        self.calls.clear();
        self.state = self.idle(now);
    }

    /// Waits before it asks for work again: twice as long each time, and never as long as the others.
    fn rest(&mut self, now: Duration) {
        self.calls.clear();
        let (shortest, longest) = self.settings.idle;
        let pause = match &self.state {
            State::Claiming { pause, .. } => *pause,
            State::Idle { .. } | State::Working(_) => shortest,
        };
        let until = now + pause.mul_f64(0.5 + self.random.f64());
        self.state = State::Idle { until, pause: (pause * 2).min(longest) };
    }

    fn idle(&self, until: Duration) -> State {
        State::Idle { until, pause: self.settings.idle.0 }
    }

    fn send(&mut self, request: Request, now: Duration) -> Action {
        self.next_call += 1;
        self.calls.insert(self.next_call, now);
        Action::Send { call: self.next_call, request }
    }
}
