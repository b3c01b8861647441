//! How long the look at a session's end may take, and who may stop it.
//!
//! A session can leave more than anybody wants to wait for. What a look does not reach stays written
//! down as after a kill, and the next start settles it before it does anything itself.

use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use pinfold_host::sys;
use pinfold_terminal::notify;

/// The longest look at the end of a session.
const AT_END: Duration = Duration::from_secs(60);
/// The longest look of a start at what an earlier session left.
const AT_START: Duration = Duration::from_secs(600);
/// How long nothing is said.
const SILENT: Duration = Duration::from_secs(2);
/// Between two looks for a signal.
const STEP: Duration = Duration::from_millis(50);

/// Whether a look may go on.
#[derive(Debug)]
pub struct Patience {
    began: Instant,
    longest: Duration,
    /// SIGINT and SIGTERM, which the supervisor blocks.
    signals: Option<OwnedFd>,
    next: Cell<Duration>,
    is_over: Cell<bool>,
}

impl Patience {
    /// Returns that of a session's end.
    pub fn at_end() -> Self {
        Self::of(AT_END)
    }

    /// Returns that of a start that settles an earlier session.
    pub fn at_start() -> Self {
        Self::of(AT_START)
    }

    fn of(longest: Duration) -> Self {
        let (next, is_over) = (Cell::new(SILENT), Cell::new(false));
        // Without the signals only the time ends the look.
        Self { began: Instant::now(), longest, signals: sys::stop_events().ok(), next, is_over }
    }

    /// Returns whether the look has to stop here.
    pub fn is_over(&self) -> bool {
        let passed = self.began.elapsed();
        if passed < self.next.get() || self.is_over.get() {
            return self.is_over.get();
        }
        let mut stops = std::iter::from_fn(|| sys::next_signal(self.signals.as_ref()?));
        if self.next.get() == SILENT {
            // These were meant for the command.
            stops.by_ref().for_each(drop);
            notify!("pinfold: still looking at what a session changed; Ctrl-C stops that for now");
        }
        self.next.set(passed + STEP);
        self.is_over.set(stops.next().is_some() || passed >= self.longest);
        self.is_over.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_with_its_time() {
        let patience = Patience::of(Duration::ZERO);
        assert!(!patience.is_over());
        patience.next.set(Duration::ZERO);
        assert!(patience.is_over());
        assert!(patience.is_over());
    }
}
