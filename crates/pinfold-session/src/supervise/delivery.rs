//! What is still on its way out of a sandbox whose command has ended.

use std::time::Instant;

use pinfold_host::sys;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{ENDING, Supervision};

impl Supervision {
    /// Waits until everything that the command wrote has come, where it comes by way of a channel. A signal that asks to end
    /// and the deadlines end the wait.
    pub(super) fn await_delivery(&self) {
        let mut is_over = !self.inside.delivers_late();
        while !is_over {
            let Some(left) = self.left() else { return };
            let ended = self.inside.ended();
            let mut ready = [
                PollFd::from_borrowed_fd(ended, PollFlags::IN),
                PollFd::new(&self.signals, PollFlags::IN),
            ];
            let waited = rustix::event::poll(&mut ready, left.as_ref());
            is_over = waited.is_err_and(|errno| errno != rustix::io::Errno::INTR)
                || ready[0].revents().contains(PollFlags::IN);
            while let Some(signal) = sys::next_signal(&self.signals) {
                is_over |= ENDING.contains(&signal);
            }
        }
    }

    /// Returns how long there is to wait: `None` if no time is left, and nothing within if there is no end.
    fn left(&self) -> Option<Option<Timespec>> {
        let Some(end) = self.deadline.into_iter().chain(self.state.killing).min() else {
            return Some(None);
        };
        let left = end.checked_duration_since(Instant::now())?;
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        Some(Some(Timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }))
    }
}
