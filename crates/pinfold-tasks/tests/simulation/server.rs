//! The side of the queue: requests are carried out on the real one.

use std::hash::{Hash as _, Hasher as _};

use pinfold_tasks::{Answer, Queue, QueueError, Request, Settled};
use pinfold_tasks_postgres::AnyStore;

use crate::ledger::Ledger;

/// Carries out a request.
pub(crate) fn carry_out(queue: &Queue<AnyStore>, request: &Request) -> (Answer, Option<Settled>) {
    let settled = |settled| (Answer::Settled, Some(settled));
    let done = match request {
        Request::Claim(claim) => {
            queue.claim(claim).map(|claimed| (Answer::Claimed(claimed.map(Box::new)), None))
        }
        Request::Heartbeat(holder) => {
            queue.heartbeat(holder, None).map(|heartbeat| (Answer::Heartbeat(heartbeat), None))
        }
        Request::Complete(holder, completion) => queue.complete(holder, completion).map(settled),
        Request::Fail(holder, failure) => queue.fail(holder, failure).map(settled),
        Request::Abort(holder) => queue.abort(holder, "the worker ends").map(settled),
    };
    done.unwrap_or_else(|error| {
        assert!(!matches!(error, QueueError::Store(_)), "the store failed: {error}");
        (Answer::of_error(&error), None)
    })
}

/// Notes what a request changed.
pub(crate) fn note(
    request: &Request,
    answer: &Answer,
    settled: Option<Settled>,
    ledger: &mut Ledger,
) {
    if let Answer::Claimed(Some(claimed)) = answer {
        ledger.claimed(&claimed.holder);
    }
    if let Request::Complete(holder, completion) = request {
        match settled {
            Some(Settled::Now) => ledger.completed(holder, completion),
            Some(Settled::Before) => ledger.was_completed(holder, completion),
            None => {}
        }
    }
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
