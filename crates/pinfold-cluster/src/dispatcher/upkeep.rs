//! What becomes of attempts that are placed.

use std::time::Duration;

use pinfold_tasks::{
    AttemptStatus, Claim, Failure, QueueError, Refused, Store, Token, Transaction,
};

use super::{DispatchError, DispatchEvent, Dispatcher, Doubt, JOB_LOST};
use crate::placement::Placement;
use crate::scheduler::{Job, JobName, JobState, Scheduler, SchedulerError};
use crate::ticket::{self, SecretVariable};

/// How long the scheduler may not know a job before it counts as gone: one that was submitted a moment ago may not be listed.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);
/// How long a placement may be without a job before the job is looked for.
const RECOVERY: Duration = Duration::from_secs(5);
/// How long a job that runs may take to claim its attempt.
const CLAIM_PATIENCE: Duration = Duration::from_secs(120);
/// How long a job may take to end by itself after its attempt is over. Its worker learns of it by a heartbeat.
const END_PATIENCE: Duration = Duration::from_secs(60);
/// The lease of an attempt that is claimed to report that its job is gone.
const REPORT: Duration = Duration::from_secs(60);

/// What the store says of a placed attempt.
pub(super) enum Phase {
    /// Nobody has claimed it.
    Next,
    /// Somebody works on it.
    Active,
    Over,
}

impl<S: Store, E: Scheduler + ?Sized> Dispatcher<'_, S, E> {
    /// Looks after one of them. `found` is what the store says of it, which was asked after the scheduler: an attempt that its job has
    /// claimed since is claimed there. `state` is what the scheduler said.
    pub(super) fn look_after(
        &mut self,
        name: &JobName,
        found: Option<(Phase, Placement)>,
        state: Option<&JobState>,
        now: Duration,
    ) -> Result<(), DispatchError> {
        let Some((phase, placement)) = found else {
            // The task was removed and its notes with it, or the job has given the attempt back.
            self.cancel_all(name, "its placement is gone");
            self.scheduler.clean_up(name);
            return Ok(());
        };
        match (phase, &placement.id) {
            (Phase::Next, None) => self.recover(&placement, now),
            (Phase::Next, Some(_)) => self.await_claim(&placement, state, now),
            (Phase::Active, _) if placement.is_claimed => self.give_secrets(&placement, state),
            (Phase::Active, _) => self.give_up(&placement, "another worker has the attempt"),
            (Phase::Over, _) => self.await_end(&placement, state, now),
        }
    }

    /// Returns what the store says of attempts, in their order; none if its placement is gone. One transaction for all: a hundred of
    /// them are looked at each second.
    pub(super) fn phases(
        &self,
        placed: &[Placement],
    ) -> Result<Vec<Option<(Phase, Placement)>>, QueueError> {
        if placed.is_empty() {
            return Ok(Vec::new());
        }
        let store = self.queue.store();
        store.read(|transaction| placed.iter().map(|it| phase(transaction, &it.name)).collect())
    }

    /// Finds the job of a placement that a dispatcher did not see to the end, or submits it.
    fn recover(&mut self, placement: &Placement, now: Duration) -> Result<(), DispatchError> {
        let name = placement.name;
        // Another dispatcher may be about to submit it.
        if !self.has_lasted(&name, Doubt::Unplaced, RECOVERY, now) {
            self.step.live += 1;
            return Ok(());
        }
        let spec = self.queue.spec(name.task)?;
        match self.scheduler.find_submitted(&self.jobs.job(&name, &spec)) {
            Ok(found) => match found.split_first() {
                Some((job, others)) => {
                    for other in others {
                        let other = Job { name, id: other.clone() };
                        self.cancel(&other, "it was submitted twice");
                    }
                    self.record(&name, job)?;
                    (self.observer)(&DispatchEvent::Found(&name, job));
                }
                None => {
                    self.submit(&name, &spec)?;
                }
            },
            // The cluster or others changed it: it is not this job. Another attempt has another name.
            Err(SchedulerError::Refused(why)) => self.lose(&name, JOB_LOST, &why)?,
            Err(error) => self.trouble(&error.to_string()),
        }
        Ok(())
    }

    /// Sees that a job claims its attempt, or that the attempt fails.
    fn await_claim(
        &mut self,
        placement: &Placement,
        state: Option<&JobState>,
        now: Duration,
    ) -> Result<(), DispatchError> {
        let name = &placement.name;
        match state {
            Some(JobState::Waiting) => self.step.live += 1,
            Some(JobState::Running) => {
                self.step.live += 1;
                self.step.is_urgent |= placement.has_secrets;
                if self.has_lasted(name, Doubt::Unclaimed, CLAIM_PATIENCE, now) {
                    return self.lose(
                        name,
                        JOB_LOST,
                        "the job runs and does not claim its attempt",
                    );
                }
            }
            Some(JobState::Ended(why)) => {
                let output = self.scheduler.output(name);
                let output = output.trim();
                let colon = if output.is_empty() { "" } else { ": " };
                let what =
                    format!("the job ended before it began the attempt ({why}){colon}{output}");
                return self.lose(name, JOB_LOST, &what);
            }
            Some(JobState::Unknown) => {
                self.step.live += 1;
                if self.has_lasted(name, Doubt::Unknown, FORGOTTEN_AFTER, now) {
                    let who = self.scheduler.name();
                    return self.lose(
                        name,
                        JOB_LOST,
                        &format!("{who} does not know the job any more"),
                    );
                }
            }
            // It was placed after the scheduler was asked.
            None => self.step.live += 1,
        }
        Ok(())
    }

    /// Seals the secrets for a job that has claimed its attempt, if it runs.
    fn give_secrets(
        &mut self,
        placement: &Placement,
        state: Option<&JobState>,
    ) -> Result<(), DispatchError> {
        self.step.live += 1;
        if placement.key.is_none() {
            return Ok(());
        }
        if state != Some(&JobState::Running) {
            self.step.is_urgent = true;
            return Ok(());
        }
        let given = self.jobs.secrets().map_err(|why| format!("no secrets for a job: {why}"));
        let issued = given.and_then(|secrets: Vec<SecretVariable>| {
            ticket::issue(placement, &secrets, self.queue).map_err(|error| error.to_string())
        });
        match issued {
            Ok(()) => self.step.has_changed = true,
            Err(why) => self.trouble(&why),
        }
        Ok(())
    }

    /// Sees that a job ends whose attempt is over, and removes what is kept of it.
    fn await_end(
        &mut self,
        placement: &Placement,
        state: Option<&JobState>,
        now: Duration,
    ) -> Result<(), DispatchError> {
        let name = &placement.name;
        match state {
            Some(JobState::Running)
                if placement.is_claimed
                    && !self.has_lasted(name, Doubt::Over, END_PATIENCE, now) =>
            {
                self.step.live += 1;
                Ok(())
            }
            Some(JobState::Ended(_)) => self.forget(name),
            Some(JobState::Unknown)
                if !self.has_lasted(name, Doubt::Unknown, FORGOTTEN_AFTER, now) =>
            {
                Ok(())
            }
            Some(JobState::Running | JobState::Waiting | JobState::Unknown) | None => {
                self.give_up(placement, "its attempt is over")
            }
        }
    }

    /// Cancels all jobs of a placement, and removes it. If that fails it is tried again.
    fn give_up(&mut self, placement: &Placement, why: &str) -> Result<(), DispatchError> {
        if self.cancel_all(&placement.name, why) { self.forget(&placement.name) } else { Ok(()) }
    }

    /// Cancels all jobs of a placement that have not ended. Returns whether that was done.
    fn cancel_all(&mut self, name: &JobName, why: &str) -> bool {
        let found = self.scheduler.find(name).and_then(|ids| {
            let job = |id| Job { name: *name, id };
            let jobs: Vec<Job> = ids.into_iter().map(job).collect();
            let states = self.scheduler.observe(&jobs)?;
            Ok(jobs.into_iter().zip(states).collect::<Vec<_>>())
        });
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                self.trouble(&error.to_string());
                return false;
            }
        };
        let live = |state: &JobState| matches!(state, JobState::Waiting | JobState::Running);
        let mut is_done = true;
        for (job, _) in found.iter().filter(|(_, state)| live(state)) {
            is_done &= self.cancel(job, why);
        }
        is_done
    }

    fn cancel(&mut self, job: &Job, why: &str) -> bool {
        self.step.has_changed = true;
        match self.scheduler.cancel(job) {
            Ok(()) => {
                (self.observer)(&DispatchEvent::Cancelled(&job.name, why));
                true
            }
            Err(error) => {
                self.trouble(&error.to_string());
                false
            }
        }
    }

    /// Publishes the result of an attempt whose job has ended: one that was killed in between has not.
    fn publish(&self, name: &JobName) -> Result<(), DispatchError> {
        let Some(publish) = self.publish else { return Ok(()) };
        let Some((spec, completion)) = self.queue.result_of(name.task, name.attempt)? else {
            return Ok(());
        };
        if let Err(why) = publish(name, &spec, &completion) {
            (self.observer)(&DispatchEvent::Unpublished(name, &why.to_string()));
        }
        Ok(())
    }

    fn forget(&mut self, name: &JobName) -> Result<(), DispatchError> {
        self.publish(name)?;
        Placement::remove(name, self.queue)?;
        self.scheduler.clean_up(name);
        self.step.has_changed = true;
        Ok(())
    }

    /// Ends an attempt that nobody has claimed, because its job is gone. A job that comes back finds it taken.
    pub(super) fn lose(
        &mut self,
        name: &JobName,
        code: &str,
        why: &str,
    ) -> Result<(), DispatchError> {
        self.step.has_changed = true;
        let who = format!("{} (dispatcher)", self.scheduler.name());
        let claim = Claim { token: Token::generate()?, worker: who, ttl: REPORT };
        let take = |transaction: &mut S::Transaction<'_>| Placement::take(transaction, name);
        let claimed = match self.queue.claim_attempt(name.task, name.attempt, &claim, take) {
            Ok(Some(claimed)) => claimed,
            // The job has claimed it, or given it back, in the last moment.
            Ok(None) | Err(QueueError::Refused(Refused::NotNext(_))) => return Ok(()),
            // It cannot be claimed at the moment, so nothing is lost: it is placed again later.
            Err(QueueError::Refused(_)) => return self.forget(name),
            Err(error) => return Err(error.into()),
        };
        self.queue.heartbeat(&claimed.holder, None)?;
        let is_worth_it = code == JOB_LOST;
        let failure = Failure { retryable: Some(is_worth_it), ..Failure::new(code, why) };
        self.queue.fail(&claimed.holder, &failure)?;
        // One that cannot be cancelled ends by itself: its attempt is taken.
        self.cancel_all(name, why);
        self.scheduler.clean_up(name);
        (self.observer)(&DispatchEvent::Lost(name, why));
        Ok(())
    }
}

fn phase(
    transaction: &mut impl Transaction,
    name: &JobName,
) -> Result<Option<(Phase, Placement)>, QueueError> {
    let placement = Placement::load(transaction, name)?;
    let (Some(placement), Some(record)) = (placement, transaction.load(name.task)?) else {
        return Ok(None);
    };
    let task = &record.task;
    let is_active = |status: AttemptStatus| status.is_active();
    let phase = match &record.attempt {
        _ if !task.status.is_terminal() && task.attempts.checked_add(1) == Some(name.attempt) => {
            Phase::Next
        }
        Some(attempt) if attempt.number == name.attempt && is_active(attempt.status) => {
            Phase::Active
        }
        _ => Phase::Over,
    };
    Ok(Some((phase, placement)))
}
