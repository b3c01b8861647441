//! When a view is refreshed.

use std::time::{Duration, Instant};

/// How long changes are collected before a refresh: an editor saves by several.
const QUIET: Duration = Duration::from_millis(50);
/// The pauses before further refreshes after a change, for names that were in use.
const AGAIN: [Duration; 3] =
    [Duration::from_millis(450), Duration::from_secs(1), Duration::from_secs(3)];
/// The pause between refreshes afterwards: a program may hold a file open for long.
const RARELY: Duration = Duration::from_secs(30);
/// The pause between refreshes where not every directory is watched.
const BLIND: Duration = Duration::from_secs(2);
/// A refresh is followed by a pause of at least so many times its own duration. The sandbox needs about
/// as long again to look names up.
const SHARE: u32 = 20;

/// The times of refreshes.
#[derive(Debug)]
pub(super) struct Pace {
    due: Option<Instant>,
    /// No refresh before this time.
    earliest: Instant,
    /// How many refreshes followed the last change; none if no change is known.
    follow_up: Option<usize>,
    is_complete: bool,
}

impl Pace {
    /// Begins with a refresh at once. `is_complete` says whether each change will be known.
    pub(super) fn new(now: Instant, is_complete: bool) -> Self {
        Self { due: Some(now), earliest: now, follow_up: None, is_complete }
    }

    /// Returns when the next refresh is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Notes a change.
    pub(super) fn changed(&mut self, now: Instant, is_complete: bool) {
        self.is_complete = is_complete;
        let soon = (now + QUIET).max(self.earliest);
        // Changes without end do not put a refresh off.
        let is_sooner = self.follow_up == Some(0) && self.due.is_some_and(|due| due <= soon);
        if !is_sooner {
            self.due = Some(soon);
        }
        self.follow_up = Some(0);
    }

    /// Notes a refresh that took so long.
    pub(super) fn refreshed(&mut self, now: Instant, took: Duration) {
        let shortest = (took * SHARE).max(AGAIN[0]);
        self.earliest = now + shortest;
        let pause = self.follow_up.map(|count| AGAIN.get(count).copied().unwrap_or(RARELY));
        let blind = (!self.is_complete).then_some(BLIND);
        let pause = pause.into_iter().chain(blind).min();
        self.due = pause.map(|pause| now + pause.max(shortest));
        self.follow_up = self.follow_up.map(|count| count.saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(10);

    /// Returns the pauses between the next refreshes.
    fn pauses(pace: &mut Pace, mut now: Instant, count: usize) -> Vec<Option<Duration>> {
        let mut pauses = Vec::new();
        for _ in 0..count {
            let due = pace.due();
            pauses.push(due.map(|due| due - now));
            let Some(due) = due else { break };
            now = due;
            pace.refreshed(now, FAST);
        }
        pauses
    }

    #[test]
    fn a_view_at_rest_is_refreshed_once() {
        let now = Instant::now();
        assert_eq!(pauses(&mut Pace::new(now, true), now, 3), [Some(Duration::ZERO), None]);
    }

    #[test]
    fn a_view_whose_directories_are_not_all_watched_is_refreshed_again_and_again() {
        let now = Instant::now();
        let expected = [Duration::ZERO, BLIND, BLIND].map(Some);
        assert_eq!(pauses(&mut Pace::new(now, false), now, 3), expected);
    }

    #[test]
    fn a_change_is_followed_by_several_refreshes() {
        let now = Instant::now();
        let mut pace = Pace::new(now, true);
        pace.refreshed(now, FAST);
        let later = now + Duration::from_secs(9);
        pace.changed(later, true);
        let expected = [QUIET, AGAIN[0], AGAIN[1], AGAIN[2], RARELY, RARELY].map(Some);
        assert_eq!(pauses(&mut pace, later, 6), expected);
    }

    #[test]
    fn changes_without_end_do_not_put_a_refresh_off() {
        let now = Instant::now();
        let mut pace = Pace::new(now, true);
        pace.refreshed(now, FAST);
        let later = now + Duration::from_secs(9);
        for step in 0..100 {
            pace.changed(later + Duration::from_millis(step), true);
        }
        assert_eq!(pace.due(), Some(later + QUIET));
    }

    #[test]
    fn a_slow_refresh_is_followed_by_a_long_pause() {
        let now = Instant::now();
        let mut pace = Pace::new(now, true);
        pace.refreshed(now, Duration::from_millis(100));
        pace.changed(now, true);
        assert_eq!(pace.due(), Some(now + Duration::from_secs(2)));
    }
}
