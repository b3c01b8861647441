//! The side of the queue: requests are carried out on the real one.

use std::hash::{Hash as _, Hasher as _};

use pinfold_tasks::{Answer, Queue, QueueError, Request, Settled};
use pinfold_tasks_postgres::AnyStore;

use crate::ledger::Ledger;

/// Carries out a request, and notes what it changed.
pub(crate) fn carry_out(queue: &Queue<AnyStore>, request: &Request, ledger: &mut Ledger) -> Answer {
    let answer = match request {
        Request::Claim(claim) => queue.claim(claim).map(|claimed| {
            if let Some(claimed) = &claimed {
                ledger.claimed(&claimed.holder);
            }
            Answer::Claimed(claimed.map(Box::new))
        }),
        Request::Heartbeat(holder) => queue.heartbeat(holder, None).map(Answer::Heartbeat),
        Request::Complete(holder, completion) => {
            queue.complete(holder, completion).map(|settled| {
                match settled {
                    Settled::Now => ledger.completed(holder, completion),
                    Settled::Before => ledger.was_completed(holder, completion),
                }
                Answer::Settled
            })
        }
        Request::Fail(holder, failure) => queue.fail(holder, failure).map(|_| Answer::Settled),
        Request::Abort(holder) => queue.abort(holder, "the worker ends").map(|_| Answer::Settled),
    };
    answer.unwrap_or_else(|error| {
        assert!(!matches!(error, QueueError::Store(_)), "the store failed: {error}");
        Answer::of_error(&error)
    })
}

/// Adds to a trace what was asked and answered.
pub(crate) fn trace(into: &mut std::hash::DefaultHasher, request: &Request, answer: &Answer) {
    std::mem::discriminant(request).hash(into);
    std::mem::discriminant(answer).hash(into);
    match request {
        Request::Claim(claim) => claim.worker.hash(into),
        Request::Heartbeat(holder)
        | Request::Complete(holder, _)
        | Request::Fail(holder, _)
        | Request::Abort(holder) => (holder.task, holder.attempt).hash(into),
    }
    into.write_u8(0);
}
