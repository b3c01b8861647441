//! A placed attempt as the source of one task, for the worker on a node.

use std::time::Duration;

use parking_lot::Mutex;
use pinfold_tasks::{
    Answer, Denied, Holder, Inquiry, NewMessage, Queue, QueueError, Refused, Reply, Request,
    Source, Store,
};

use crate::placement::Placement;
use crate::scheduler::JobName;

/// The attempt that a job is for. A worker can claim it and nothing else.
pub struct PlacedAttempt<'a, S> {
    queue: &'a Queue<S>,
    name: JobName,
    /// The key that its secrets are to be sealed for.
    key: Option<String>,
    refusal: Mutex<Option<String>>,
}

impl<'a, S: Store> PlacedAttempt<'a, S> {
    /// Returns the attempt of a job, whose secrets are to be sealed for this key.
    #[must_use]
    pub fn new(queue: &'a Queue<S>, name: JobName, key: Option<String>) -> Self {
        Self { queue, name, key, refusal: Mutex::new(None) }
    }

    /// Returns why the attempt is not this job's.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    fn refuse(&self, why: &str) -> Answer {
        *self.refusal.lock() = Some(why.to_owned());
        Answer::Claimed(None)
    }

    /// Returns whether the placement is this job's, and notes that it claims the attempt.
    fn admit(
        &self,
        transaction: &mut S::Transaction<'_>,
    ) -> Result<bool, pinfold_tasks::StoreError> {
        let Some(mut placement) = Placement::load(transaction, &self.name)? else {
            return Ok(false);
        };
        if placement.is_claimed {
            return Ok(false);
        }
        placement.is_claimed = true;
        placement.key.clone_from(&self.key);
        placement.write(transaction)?;
        Ok(true)
    }

    /// Gives back what cannot be claimed at the moment, so that it is placed again later.
    fn give_back(&self) -> Result<(), QueueError> {
        self.queue.store().write_task(self.name.task, |transaction| {
            Placement::take(transaction, &self.name).map(drop).map_err(QueueError::from)
        })
    }
}

impl<S: Store + Sync> Source for PlacedAttempt<'_, S> {
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied> {
        let Request::Claim(claim) = request else { return self.queue.ask(request, ttl) };
        let (task, attempt) = (self.name.task, self.name.attempt);
        match self.queue.claim_attempt(task, attempt, claim, |transaction| self.admit(transaction))
        {
            Ok(Some(claimed)) => Ok(Answer::Claimed(Some(Box::new(claimed)))),
            Ok(None) => Ok(self.refuse("another job has the attempt, or it was given up")),
            Err(QueueError::Refused(refused)) => {
                if let Refused::Overlaps(_) = refused {
                    // Otherwise the dispatcher takes the job for lost, which costs an attempt.
                    let _ = self.give_back();
                }
                Ok(self.refuse(&refused.to_string()))
            }
            Err(error @ (QueueError::NotFound(_) | QueueError::Spec(_))) => {
                Ok(self.refuse(&error.to_string()))
            }
            Err(error) => Err(Denied {
                answer: Answer::of_error(&error),
                reason: error.to_string(),
                is_trouble: true,
            }),
        }
    }

    fn report(&self, holder: &Holder, messages: &[NewMessage]) {
        self.queue.report(holder, messages);
    }

    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.queue.inquire(holder, inquiry, content)
    }
}
