//! Where a worker gets its tasks from.

use std::time::Duration;

use crate::inquiry::{Inquiry, Reply};
use crate::queue::{Holder, NewMessage, Queue};
use crate::store::Store;
use crate::worker::{Answer, Request};

/// Where a worker gets its tasks from, and what it reports to: a queue in a store, or one behind an API.
pub trait Source: Sync {
    /// Does what a worker asks for. Leases are to last as long as `ttl`.
    ///
    /// # Errors
    /// Returns why it is not done.
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied>;

    /// Takes messages of an attempt. Whether the attempt may go on is decided by its lease, so nothing is returned.
    fn report(&self, holder: &Holder, messages: &[NewMessage]);

    /// Answers the agent of an attempt about its task alone. `content` belongs to [`Inquiry::AddArtifact`].
    ///
    /// # Errors
    /// Returns what the agent reads.
    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String>;
}

/// Why a source does not do what a worker asks for.
#[derive(Clone, Debug)]
pub struct Denied {
    /// What that is for the worker.
    pub answer: Answer,
    /// For people.
    pub reason: String,
    /// Whether it is the source that fails, not the request.
    pub is_trouble: bool,
}

impl<S: Store + Sync> Source for Queue<S> {
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied> {
        let answer = match request {
            Request::Claim(claim) => {
                self.claim(claim).map(|claimed| Answer::Claimed(claimed.map(Box::new)))
            }
            Request::Heartbeat(holder) => self.heartbeat(holder, Some(ttl)).map(Answer::Heartbeat),
            Request::Complete(holder, completion) => {
                self.complete(holder, completion).map(|_| Answer::Settled)
            }
            Request::Fail(holder, failure) => self.fail(holder, failure).map(|_| Answer::Settled),
            Request::Abort(holder) => {
                self.abort(holder, "the worker ends").map(|_| Answer::Settled)
            }
        };
        answer.map_err(|error| Denied {
            answer: Answer::of_error(&error),
            reason: error.to_string(),
            is_trouble: error.is_of_store(),
        })
    }

    fn report(&self, holder: &Holder, messages: &[NewMessage]) {
        // An attempt whose messages are refused is about to learn that its lease is over.
        let _ = self.append(holder, messages);
    }

    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.answer(holder, inquiry, content)
    }
}
