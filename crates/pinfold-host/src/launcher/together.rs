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

    /// Returns an equal share of what is left of it, for one of `count` uses.
    pub(super) fn share(self, count: usize) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX).max(1);
        let left = self.left();
        if left.is_zero() { self } else { Self::new(left / count) }
    }

    /// Returns what is left of it.
    pub(super) fn left(self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Returns the error of a program for which no time is left.
    pub(super) fn over(self) -> io::Error {
        let seconds = (self.time.as_secs_f64() * 100.0).round() / 100.0;
        let words = format!("its programs took more than {seconds} s together");
        io::Error::new(io::ErrorKind::TimedOut, words)
    }
}
