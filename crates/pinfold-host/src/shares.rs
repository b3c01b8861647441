//! A time that several things share, one after the other, when nobody knows how much each needs.
//!
//! Each has an equal share of half of it. Those that come first may use up parts of the other half, if they need to. So one
//! that needs long is done if it comes early, and many that use up all that they get leave something for the last.

use std::time::Duration;

/// The part of the extra time that one may use up.
const PART: u32 = 8;

/// What is left of a time.
#[derive(Debug, Default)]
pub struct Shares {
    /// How many may still come.
    count: u32,
    /// What is left of the half that is shared equally.
    equal: Duration,
    /// What is left of the other half.
    extra: Duration,
}

/// The time of one.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    equal: Duration,
    extra: Duration,
}

impl Share {
    /// Returns all that it may use up.
    #[must_use]
    pub fn time(self) -> Duration {
        self.equal + self.extra
    }
}

impl Shares {
    /// Divides a time between so many.
    #[must_use]
    pub fn new(count: usize, time: Duration) -> Self {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Self { count, equal: time / 2, extra: time / 2 }
    }

    /// Returns the share of the next one.
    pub fn begin(&mut self) -> Share {
        let count = self.count.max(1);
        self.count = count - 1;
        Share { equal: self.equal / count, extra: self.extra / count.min(PART) }
    }

    /// Takes down what one used up.
    pub fn used(&mut self, share: Share, time: Duration) {
        self.equal = self.equal.saturating_sub(time.min(share.equal));
        self.extra = self.extra.saturating_sub(time.saturating_sub(share.equal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(40);

    /// Returns the times that those get that need these times.
    fn shares(needs: &[f64]) -> Vec<f64> {
        let mut shares = Shares::new(needs.len(), TIME);
        let share = |need: &f64| {
            let share = shares.begin();
            let time = share.time().min(Duration::from_secs_f64(*need));
            shares.used(share, time);
            time.as_secs_f64()
        };
        needs.iter().map(share).collect()
    }

    #[test]
    fn one_alone_has_all_of_the_time() {
        assert_eq!(shares(&[100.0]), [40.0]);
    }

    #[test]
    fn many_have_the_time_that_they_need_if_it_is_little() {
        for (count, need) in [(256, 0.14), (200, 0.18), (20, 1.8)] {
            assert!(shares(&vec![need; count]).iter().all(|time| *time == need), "{count}");
        }
    }

    #[test]
    fn first_of_many_that_need_long_have_seconds_and_the_last_an_equal_share_of_half() {
        let times = shares(&[100.0; 256]);
        assert!(times[..4].iter().all(|time| *time > 1.5), "{times:?}");
        assert!(times[255] > 0.07, "{times:?}");
        assert!(times.iter().sum::<f64>() < 40.1, "{times:?}");
    }
}
