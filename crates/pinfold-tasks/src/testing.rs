//! Help for tests: those of this crate, and those of the stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Claim, Clock, Draft, Lease, TaskId, TaskSpec, Timestamp, Token};

/// A clock that a test sets.
#[derive(Clone, Debug)]
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(1_700_000_000_000)))
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.0.fetch_add(seconds * 1_000, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) fn id(number: u128) -> TaskId {
    TaskId::from_random(number.to_be_bytes())
}

pub(crate) fn token(number: u128) -> Token {
    Token::from_random(number.to_be_bytes())
}

pub(crate) fn claim(number: u128) -> Claim {
    Claim { token: token(number), worker: format!("worker-{number}"), ttl: Lease::TTL }
}

pub(crate) fn draft(number: u128) -> Draft {
    let spec = TaskSpec::new(&format!("task {number}"), "Do it.");
    Draft { id: id(number), spec, expires_after: None }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
