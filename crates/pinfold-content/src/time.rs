//! Points in time, and the clocks that tell them.

use std::ops::Add;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: milliseconds since 1970, as stores keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time that a store can keep: its numbers have a sign.
    const LATEST: u64 = i64::MAX as u64;

    /// Returns the time that is so many milliseconds after the beginning of 1970.
    #[must_use]
    pub fn from_millis(millis: u64) -> Self {
        Self(millis.min(Self::LATEST))
    }

    /// Returns the milliseconds since the beginning of 1970.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Returns the time between an earlier time and this one; zero if the other one is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Adds whole milliseconds, up to the latest time there is.
    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self::from_millis(self.0.saturating_add(millis))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(time.0)
    }
}

/// Tells the time by which a store decides.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        // A clock that is set to before 1970 is at its beginning.
        let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(0) + elapsed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Timestamp;

    #[test]
    fn time_after_the_latest_is_the_latest() {
        let latest = Timestamp::from_millis(u64::MAX);
        assert_eq!(latest + Duration::MAX, latest);
        assert!(i64::try_from(latest.millis()).is_ok());
    }

    #[test]
    fn time_since_a_later_time_is_zero() {
        let (early, late) = (Timestamp::from_millis(5), Timestamp::from_millis(7));
        assert_eq!(late.since(early), Duration::from_millis(2));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
