//! How fast something may go into a log that the sandbox must not be able to fill.

use std::time::Instant;

/// Records at once.
const BURST: f64 = 200.0;
/// Records each second after that.
const RATE: f64 = 20.0;

/// A token bucket that counts what it keeps back.
#[derive(Debug)]
pub struct Pace {
    left: f64,
    since: Instant,
    skipped: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self { left: BURST, since: Instant::now(), skipped: 0 }
    }
}

impl Pace {
    /// Takes a step: `None` if it comes too fast, else how many did since the last.
    pub fn step(&mut self) -> Option<u64> {
        let now = Instant::now();
        self.left += now.duration_since(self.since).as_secs_f64() * RATE;
        self.left = self.left.min(BURST);
        self.since = now;
        if self.left < 1.0 {
            self.skipped += 1;
            return None;
        }
        self.left -= 1.0;
        Some(std::mem::take(&mut self.skipped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_recorded() {
        let mut pace = Pace::default();
        let recorded = (0..10_000).filter(|_| pace.step().is_some()).count();
        assert!((200..400).contains(&recorded), "{recorded}");
        pace.left = 1.0;
        assert!(pace.step().is_some_and(|skipped| skipped > 9_000));
    }
}
