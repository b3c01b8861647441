//! A worker: it polls, claims, renews its lease, stops by itself, and repeats what is not answered.

use std::collections::HashMap;
use std::time::Duration;

use pinfold_tasks::{Claim, Heartbeat, Holder, Lease, Token};

use crate::events::{Answer, Life, Request, Time};

/// How long a worker waits for an answer before it asks again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it waits at least and at most before it asks for work again.
const IDLE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Action {
    Send { call: u64, request: Request },
    StartSandbox(Holder),
    StopSandbox(Holder),
}

/// A worker. All times are of its own clock, which begins with its life.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) life: Life,
    pub(crate) is_up: bool,
    /// When this life began.
    born: Time,
    /// How fast its clock runs.
    rate: f64,
    state: State,
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
    lease: Lease,
    is_started: bool,
    has_sandbox: bool,
    heartbeat: Duration,
    report: Option<(Request, Duration)>,
}

impl Worker {
    pub(crate) fn new(index: usize, rate: f64, seed: u64) -> Self {
        Self {
            life: Life { worker: index, life: 0 },
            is_up: true,
            born: Time::ZERO,
            rate,
            state: idle(Duration::ZERO, IDLE.0),
            calls: HashMap::new(),
            next_call: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Begins another life, which knows nothing of the one before.
    pub(crate) fn restart(&mut self, now: Time) {
        self.life.life += 1;
        self.is_up = true;
        self.born = now;
        self.calls.clear();
        self.state = idle(Duration::ZERO, IDLE.0);
    }

    /// Returns the time of its clock.
    fn local(&self, now: Time) -> Duration {
        (now - self.born).mul_f64(self.rate)
    }

    /// Returns when it has something to do, in time of the simulation.
    pub(crate) fn due(&self) -> Time {
        let local = match &self.state {
            State::Idle { until, .. } => *until,
            State::Claiming { again, .. } => *again,
            State::Working(work) => {
                let report = work.report.as_ref().map(|(_, at)| *at);
                let soonest = work.heartbeat.min(work.lease.stop());
                report.map_or(soonest, |report| soonest.min(report))
            }
        };
        // A clock that is read a moment later has surely reached it.
        self.born + local.div_f64(self.rate) + Duration::from_millis(1)
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, now: Time) -> Vec<Action> {
        let now = self.local(now);
        let mut actions = Vec::new();
        match &mut self.state {
            State::Idle { until, pause } if *until <= now => {
                let pause = *pause;
                let claim = Claim {
                    token: Token::from_random(self.random.u128(..).to_le_bytes()),
                    worker: format!("worker-{}", self.life.worker),
                    ttl: Lease::TTL,
                };
                actions.push(self.send(Request::Claim(claim.clone()), now));
                self.state = State::Claiming { claim, first: now, again: now + PATIENCE, pause };
            }
            State::Claiming { first, .. } if *first + Lease::TTL <= now => {
                self.state = idle(now, IDLE.0);
            }
            State::Claiming { claim, again, .. } if *again <= now => {
                *again = now + PATIENCE;
                let request = Request::Claim(claim.clone());
                actions.push(self.send(request, now));
            }
            State::Working(work) if work.lease.stop() <= now => self.give_up(now, &mut actions),
            State::Working(work) => {
                let mut requests = Vec::new();
                if work.heartbeat <= now {
                    work.heartbeat = now + PATIENCE;
                    requests.push(Request::Heartbeat(work.holder));
                }
                if let Some((report, at)) = &mut work.report
                    && *at <= now
                {
                    *at = now + PATIENCE;
                    requests.push(report.clone());
                }
                actions.extend(requests.into_iter().map(|request| self.send(request, now)));
            }
            State::Idle { .. } | State::Claiming { .. } => {}
        }
        actions
    }

    /// Takes an answer. What was asked in another state is of no use any more.
    pub(crate) fn take(&mut self, call: u64, answer: Answer, now: Time) -> Vec<Action> {
        let Some(sent) = self.calls.get(&call).copied() else { return Vec::new() };
        let time = now;
        let now = self.local(now);
        let mut actions = Vec::new();
        match (&mut self.state, answer) {
            (State::Claiming { .. }, Answer::Claimed(Some(claimed))) => {
                let lease = Lease::new(sent, claimed.lasts, Lease::TTL, Lease::HEARTBEAT);
                self.calls.clear();
                self.state = State::Working(Box::new(Work {
                    holder: claimed.holder,
                    lease,
                    is_started: false,
                    has_sandbox: false,
                    heartbeat: now,
                    report: None,
                }));
                actions.extend(self.step(time));
            }
            (State::Claiming { .. }, Answer::Claimed(None) | Answer::Refused) => self.rest(now),
            (State::Working(work), Answer::Heartbeat(Heartbeat::Renewed(lasts))) => {
                work.lease.renew(sent, lasts);
                work.heartbeat = work.lease.next_heartbeat();
                if !work.is_started {
                    work.is_started = true;
                    work.has_sandbox = true;
                    actions.push(Action::StartSandbox(work.holder));
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

    /// Notes that the sandbox has ended by itself. Returns whether it was still wanted.
    pub(crate) fn finished(&mut self, holder: &Holder) -> bool {
        match &mut self.state {
            State::Working(work) if work.holder == *holder && work.has_sandbox => {
                work.has_sandbox = false;
                true
            }
            _ => false,
        }
    }

    /// Begins to report a result.
    pub(crate) fn report(&mut self, request: Request, now: Time) -> Vec<Action> {
        let local = self.local(now);
        if let State::Working(work) = &mut self.state {
            work.report = Some((request, local));
        }
        self.step(now)
    }

    /// Returns what it works on with a sandbox.
    pub(crate) fn works_on(&self) -> Option<Holder> {
        match &self.state {
            State::Working(work) if work.has_sandbox => Some(work.holder),
            _ => None,
        }
    }

    fn give_up(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if let State::Working(work) = &self.state
            && work.has_sandbox
        {
            actions.push(Action::StopSandbox(work.holder));
        }
        self.calls.clear();
        self.state = idle(now, IDLE.0);
    }

    /// Waits before it asks for work again: twice as long each time, and never as long as the others.
    fn rest(&mut self, now: Duration) {
        self.calls.clear();
        let pause = match &self.state {
            State::Claiming { pause, .. } => *pause,
            State::Idle { .. } | State::Working(_) => IDLE.0,
        };
        let wait = pause.mul_f64(0.5 + self.random.f64());
        self.state = idle(now + wait, (pause * 2).min(IDLE.1));
    }

    fn send(&mut self, request: Request, now: Duration) -> Action {
        self.next_call += 1;
        self.calls.insert(self.next_call, now);
        Action::Send { call: self.next_call, request }
    }
}

fn idle(until: Duration, pause: Duration) -> State {
    State::Idle { until, pause }
}
