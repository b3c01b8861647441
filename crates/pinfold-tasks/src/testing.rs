//! Help for tests.

use std::time::Duration;

use crate::id::{TaskId, Token};
use crate::lease::Lease;
use crate::record::Claim;

pub(crate) fn id(number: u128) -> TaskId {
    TaskId::from_random(number.to_be_bytes())
}

pub(crate) fn token(number: u128) -> Token {
    Token::from_random(number.to_be_bytes())
}

pub(crate) fn claim(number: u128) -> Claim {
    Claim { token: token(number), worker: format!("worker-{number}"), ttl: Lease::TTL }
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
