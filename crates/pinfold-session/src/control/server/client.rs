//! Somebody who asks a session for something, and how far that has come.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use pinfold_boundary::Inside;
use pinfold_host::ipc::Json;
use pinfold_wire::{Bounds, Channel, Ended, Order};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::GRACE;
use crate::control::Limits;
use crate::control::bounds::Bounded;
use crate::control::message::Answer;
use crate::outcome::LimitReached;

pub(super) struct Client {
    pub(super) channel: Channel,
    pub(super) state: State,
    /// What bounds that which it runs.
    pub(super) bounded: Option<Bounded>,
}

/// How something is to be run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) timeout: Option<Duration>,
    pub(super) bounds: Bounds,
    pub(super) limits: Limits,
}

pub(super) enum State {
    /// It has yet to say what it wants.
    New,
    /// It is saying what to run.
    Telling { asked: Asked, program: Vec<u8> },
    Running {
        id: u32,
        deadline: Option<Instant>,
        /// The limit for which it is being ended.
        over: Option<LimitReached>,
    },
    /// It has gone, and what it ran is to end.
    Left { id: u32, kill: Option<Instant> },
    /// It is attached, with this number where the session has a terminal.
    Attached(Option<u32>),
    /// It waits for the session's end.
    Waiting,
    /// There is nothing more to say.
    Done,
}

impl Client {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, state: State::New, bounded: None }
    }

    pub(super) fn id(&self) -> Option<u32> {
        match self.state {
            State::Running { id, .. } | State::Left { id, .. } => Some(id),
            State::New
            | State::Telling { .. }
            | State::Attached(_)
            | State::Waiting
            | State::Done => None,
        }
    }

    /// Returns whether it may still say something.
    pub(super) fn is_here(&self) -> bool {
        !matches!(self.state, State::Left { .. } | State::Done)
    }

    /// Returns when to look at its time and limits.
    pub(super) fn due(&self) -> Option<Instant> {
        let of_state = match self.state {
            State::Running { deadline, .. } => deadline,
            State::Left { kill, .. } => kill,
            State::New
            | State::Telling { .. }
            | State::Attached(_)
            | State::Waiting
            | State::Done => None,
        };
        let of_bounds = self.bounded.as_ref().and_then(Bounded::due);
        of_state.into_iter().chain(of_bounds).min()
    }

    /// Answers a client. One that does not take its answers loses them.
    pub(super) fn answer(&mut self, answer: Answer, descriptors: &[BorrowedFd<'_>]) {
        if self.channel.send(&Json(answer), descriptors).is_err()
            && let State::Running { id, .. } = self.state
        {
            self.state = State::Left { id, kill: Some(Instant::now()) };
        }
    }

    pub(super) fn has_said_something(&self) -> bool {
        let mut ready = [PollFd::new(&self.channel, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ready, Some(&at_once)));
        ready == Ok::<_, Errno>(1)
    }

    /// Notes that what it runs is being ended for this limit.
    pub(super) fn is_over(&mut self, limit: LimitReached) {
        if let State::Running { deadline, over: over @ None, .. } = &mut self.state {
            *over = Some(limit);
            // The sandbox can hold back the message that it has ended, so it is not waited for.
            *deadline = Some(Instant::now() + GRACE);
        }
    }

    /// Ends what has run for too long, or has used too much memory. Returns the end of a program that did not
    /// report it in time, with its number and limit.
    pub(super) fn look_at_limits(
        &mut self,
        inside: &Inside,
    ) -> Option<(u32, Ended, Option<LimitReached>)> {
        let has_run_out = self.bounded.as_mut().is_some_and(Bounded::has_run_out);
        let now = Instant::now();
        let is_due = |at: Option<Instant>| at.is_some_and(|at| now >= at);
        match &mut self.state {
            &mut State::Running { id, deadline, over: None } => {
                let limit = match (has_run_out, is_due(deadline)) {
                    (true, _) => LimitReached::Memory,
                    (false, true) => LimitReached::Timeout,
                    (false, false) => return None,
                };
                let _ = inside.order(&Order::EndTask(id));
                self.is_over(limit);
            }
            &mut State::Running { id, deadline, over } if is_due(deadline) => {
                let _ = inside.order(&Order::EndTask(id));
                let killed = Ended::Signal(libc::SIGKILL as u8);
                self.answer(Answer::ended(killed, over), &[]);
                self.state = State::Done;
                return Some((id, killed, over));
            }
            State::Left { id, kill } if is_due(*kill) => {
                let _ = inside.order(&Order::EndTask(*id));
                *kill = Some(now + GRACE);
            }
            _ => {}
        }
        None
    }
}
