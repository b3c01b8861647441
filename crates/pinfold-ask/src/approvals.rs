//! What waits for a user's answer.
//!
//! The thread that asks for the sandbox ([`Approvals::ask`]) waits here. An approver can answer:
//! the terminal of the session, a client at its control socket, or one that is about to come there
//! because it watches all sessions. Nothing waits that nobody could answer, unless the run has said that it waits.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{EventfdFlags, eventfd};
use serde::{Deserialize, Serialize};

use crate::watchers::Watchers;

/// Requests that wait at once; the oldest is denied for another.
const MOST: usize = 100;

/// What a user is asked about. Whatever a terminal would not show as it is, is escaped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// A command that the host is to run.
    Command {
        /// The executable.
        executable: String,
        /// The command as one line that a shell reads as the same words.
        command: String,
        /// The directory on the host that it runs in.
        cwd: String,
    },
    /// A connection that no rule names.
    Connection {
        /// The host: a name in its ASCII form, or an address.
        host: String,
        /// The port.
        port: u16,
        /// What the port is known for: `tls`, `http`, or `tcp` for anything.
        protocol: String,
    },
}

/// A request of the sandbox's that a user is asked about, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// Its number in the session.
    pub id: u64,
    /// What it is about.
    pub subject: Subject,
    /// More that a user should know, one line each: of a push where to, which references and which
    /// commits.
    pub details: Vec<String>,
    /// The rule that `always` writes, in words; none where no rule can say as much.
    pub rule: Option<String>,
}

/// A user's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Allow it this once.
    Once,
    /// This, and the same again in this session.
    Session,
    /// This, and the same again in this repository: a rule is written to the user's settings.
    Always,
    /// Refuse it.
    Deny {
        /// Why, for the sandbox.
        reason: Option<String>,
    },
}

/// Why there was no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoAnswer {
    /// Nobody is there to be asked.
    Nobody,
    /// Nobody answered in time.
    Late,
    /// Too many others came after it.
    Crowded,
    /// Who asked has gone.
    Withdrawn,
    /// The session ends.
    Over,
}

/// A user's answer, and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// The answer.
    pub answer: Answer,
    /// `terminal`, `link`, `command`, or who answered at the control socket.
    pub by: String,
}

/// Why an answer is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum AnswerError {
    /// It was answered already, or its time is over.
    #[error("no request {0} waits for an answer")]
    Unknown(u64),
    /// No rule can allow this and nothing more.
    #[error("no rule can allow this and nothing more: approve it once, or for this session")]
    NoRule,
}

/// The requests of one session that wait for an answer.
#[derive(Debug, Default)]
pub struct Approvals {
    state: Mutex<State>,
    changed: Condvar,
    watchers: Watchers,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Those that wait, the oldest first.
    waiting: BTreeMap<u64, Waiting>,
    /// Who can answer, each with what wakes them.
    approvers: Vec<(u64, Arc<OwnedFd>)>,
    next_approver: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Waiting {
    pending: Pending,
    deadline: Instant,
    stage: Stage,
}

/// How far a request is.
#[derive(Debug)]
enum Stage {
    Open,
    /// It has an answer, which who asked does not know yet.
    Answered,
    Over(Result<Answered, NoAnswer>),
}

/// How a request waits.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long.
    pub patience: Duration,
    /// Whether it waits although nobody is there.
    pub waits: bool,
}

impl Approvals {
    /// Returns those of a session that these can watch.
    pub(crate) fn new(watchers: Watchers) -> Self {
        Self { watchers, ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits for a user's answer, or until `is_withdrawn`, which is asked again and again.
    ///
    /// # Errors
    /// Returns why it is missing.
    pub(crate) fn ask(
        &self,
        pending: Pending,
        terms: Terms,
        mut is_withdrawn: impl FnMut() -> bool,
    ) -> Result<Answered, NoAnswer> {
        /// How soon it is noticed that who asked has gone.
        const LOOK: Duration = Duration::from_millis(100);
        let mut state = self.state();
        if state.is_over {
            return Err(NoAnswer::Over);
        }
        if !terms.waits && !self.has_approver(&state) {
            return Err(NoAnswer::Nobody);
        }
        let id = pending.id;
        state.deny_oldest();
        let deadline = Instant::now() + terms.patience;
        state.waiting.insert(id, Waiting { pending, deadline, stage: Stage::Open });
        self.report(&state);
        loop {
            let no_answer = match state.waiting.get(&id).map(|one| &one.stage) {
                Some(Stage::Over(_)) | None => None,
                _ if state.is_over => Some(NoAnswer::Over),
                Some(Stage::Answered) => {
                    let _ = self.changed.wait_for(&mut state, LOOK);
                    continue;
                }
                Some(Stage::Open) if !terms.waits && !self.has_approver(&state) => {
                    Some(NoAnswer::Nobody)
                }
                Some(Stage::Open) if Instant::now() >= deadline => Some(NoAnswer::Late),
                Some(Stage::Open) if is_withdrawn() => Some(NoAnswer::Withdrawn),
                Some(Stage::Open) => {
                    let _ = self.changed.wait_for(&mut state, LOOK);
                    continue;
                }
            };
            let stage = state.waiting.remove(&id).map(|one| one.stage);
            self.report(&state);
            return match stage {
                Some(Stage::Over(outcome)) => outcome,
                _ => Err(no_answer.unwrap_or(NoAnswer::Over)),
            };
        }
    }

    /// Returns the next request's number.
    pub fn number(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// Returns those that wait for an answer, the oldest first.
    pub(crate) fn pending(&self) -> Vec<Pending> {
        self.state().open().cloned().collect()
    }

    /// Returns when the time of a request that waits is over.
    pub(crate) fn deadline(&self, id: u64) -> Option<Instant> {
        let state = self.state();
        let open = state.waiting.get(&id).filter(|one| one.is_open());
        open.map(|one| one.deadline)
    }

    /// Waits until there is a request, or for so long; whether there is one.
    pub(crate) fn wait_for_request(&self, patience: Duration) -> bool {
        let mut state = self.state();
        if state.open().next().is_none() {
            let _ = self.changed.wait_for(&mut state, patience);
        }
        state.open().next().is_some()
    }

    /// Waits until something changes, or for so long.
    pub(crate) fn wait(&self, patience: Duration) {
        let _ = self.changed.wait_for(&mut self.state(), patience);
    }

    /// Answers one. No other answer counts from here on; who asked learns of it when what is returned is dropped.
    ///
    /// # Errors
    /// Returns an error if it does not wait any more, or there is no answer.
    pub(crate) fn answer(
        self: &Arc<Self>,
        id: u64,
        answer: Answer,
        by: &str,
    ) -> Result<Counted, AnswerError> {
        let mut state = self.state();
        let open = state.waiting.get_mut(&id).filter(|one| one.is_open());
        let one = open.ok_or(AnswerError::Unknown(id))?;
        if answer == Answer::Always && one.pending.rule.is_none() {
            return Err(AnswerError::NoRule);
        }
        one.stage = Stage::Answered;
        self.report(&state);
        let answered = Some(Answered { answer, by: by.to_owned() });
        Ok(Counted { approvals: Arc::clone(self), id, answered })
    }

    /// Is there to answer, as long as the value lives.
    ///
    /// # Errors
    /// Returns the error of `eventfd(2)`.
    pub(crate) fn attend(self: &Arc<Self>) -> std::io::Result<Approver> {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let mut state = self.state();
        state.next_approver += 1;
        let number = state.next_approver;
        state.approvers.push((number, Arc::clone(&wake)));
        drop(state);
        Ok(Approver { approvals: Arc::clone(self), number, wake })
    }

    /// Ends all waiting, since the session ends.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.is_over = true;
        self.report(&state);
    }

    /// Returns whether anybody is there to answer.
    pub(crate) fn is_attended(&self) -> bool {
        let state = self.state();
        !state.is_over && self.has_approver(&state)
    }

    fn has_approver(&self, state: &State) -> bool {
        !state.approvers.is_empty() || self.watchers.are_there()
    }

    /// Returns whether the session ends.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    fn report(&self, state: &State) {
        self.changed.notify_all();
        for (_, wake) in &state.approvers {
            // A counter that is full says all that there is to say.
            let _ = rustix::io::write(wake.as_ref(), &1_u64.to_ne_bytes());
        }
    }
}

impl State {
    fn open(&self) -> impl Iterator<Item = &Pending> {
        let open = self.waiting.values().filter(|one| one.is_open());
        open.map(|one| &one.pending)
    }

    fn deny_oldest(&mut self) {
        let open: VecDeque<u64> = self.open().map(|pending| pending.id).collect();
        for id in open.iter().take((open.len() + 1).saturating_sub(MOST)) {
            if let Some(one) = self.waiting.get_mut(id) {
                one.stage = Stage::Over(Err(NoAnswer::Crowded));
            }
        }
    }
}

impl Waiting {
    fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }
}

/// An answer that counts. Who asked learns of it when this is dropped, and may be the last that keeps the session
/// from its end: who answered is sent a reply before.
#[must_use]
#[derive(Debug)]
pub(crate) struct Counted {
    approvals: Arc<Approvals>,
    id: u64,
    answered: Option<Answered>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut state = self.approvals.state();
        if let (Some(one), Some(answered)) = (state.waiting.get_mut(&self.id), self.answered.take())
        {
            one.stage = Stage::Over(Ok(answered));
        }
        self.approvals.report(&state);
    }
}

/// Somebody who is there to answer.
#[derive(Debug)]
pub(crate) struct Approver {
    approvals: Arc<Approvals>,
    number: u64,
    wake: Arc<OwnedFd>,
}

impl Approver {
    /// Takes notice of what has changed: from here on [`AsFd`] is readable when something else has.
    pub(crate) fn notice(&self) {
        let _ = rustix::io::read(self.wake.as_ref(), &mut [0_u8; 8]);
    }
}

impl AsFd for Approver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Approver {
    fn drop(&mut self) {
        let mut state = self.approvals.state();
        state.approvers.retain(|(number, _)| *number != self.number);
        self.approvals.report(&state);
    }
}

#[cfg(test)]
mod tests;
