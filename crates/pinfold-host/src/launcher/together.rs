//! A time that several programs share.

use std::io;
use std::time::{Duration, Instant};

/// What programs may take together, and when that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Together {
    time: Duration,
    end: Instant,
}

impl Together {
    /// Returns a time that begins now.
    pub(super) fn new(time: Duration) -> Self {
        Self { time, end: Instant::now() + time }
    }

    /// Returns the one of both that ends first.
    pub(super) fn or_earlier(self, other: Self) -> Self {
        if self.end <= other.end { self } else { other }
    }

    /// Returns what is left of it.
    pub(super) fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Returns the error of a program for which no time is left.
    pub(super) fn over(self) -> io::Error {
        let words = format!("its programs took more than {} s together", self.time.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, words)
    }
}
