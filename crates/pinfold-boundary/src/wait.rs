//! Waiting for what an engine, a runner or a machine has started.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

/// Why a wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// There is something to read: from which of those that were waited for, the first of several.
    Ready(usize),
    /// Nothing came in time.
    TimedOut,
    /// The user wants the start to end.
    Interrupted,
}

/// Waits until there is something to read from one of these, or `interrupt` can be read.
///
/// # Errors
/// Returns the error of `poll(2)`.
pub fn wait(
    awaited: &[BorrowedFd<'_>],
    interrupt: Option<BorrowedFd<'_>>,
    patience: Timespec,
) -> Result<Waited, Errno> {
    let all = awaited.iter().copied().chain(interrupt);
    let mut all: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut all, Some(&patience)))?;
    let first = all.iter().position(|polled| !polled.revents().is_empty());
    Ok(match first {
        None => Waited::TimedOut,
        Some(index) if index < awaited.len() => Waited::Ready(index),
        Some(_) => Waited::Interrupted,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_awaited_comes_before_an_interrupt() {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        let [silent, ready, interrupt] = [(); 3].map(|()| rustix::pipe::pipe().unwrap());
        let awaited = [silent.0.as_fd(), ready.0.as_fd()];
        let waited = || wait(&awaited, Some(interrupt.0.as_fd()), NOW).unwrap();
        assert_eq!(waited(), Waited::TimedOut);
        rustix::io::write(&interrupt.1, b"x").unwrap();
        assert_eq!(waited(), Waited::Interrupted);
        rustix::io::write(&ready.1, b"x").unwrap();
        assert_eq!(waited(), Waited::Ready(1));
    }
}
