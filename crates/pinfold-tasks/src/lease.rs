//! A worker's side of a lease.

use std::time::Duration;

/// The part of a lease that a worker leaves unused: a tenth. It covers the time that ending a sandbox takes, and
/// clocks that run at different speeds.
pub const MARGIN_PARTS: u32 = 10;

/// What a worker knows of its lease, in time of its own clock. That clock measures durations alone and need not
/// agree with the store's, but it has to run on while the machine is suspended (`CLOCK_BOOTTIME`, clock_gettime(2)).
///
/// The store counts what it grants from when it handles a request. The worker counts it from when it sent the
/// request, which was earlier. So the worker's end comes first, however long the answer took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// When the latest request that renewed it was sent.
    sent: Duration,
    end: Duration,
    margin: Duration,
    heartbeat: Duration,
}

impl Lease {
    /// How long a lease lasts by default.
    pub const TTL: Duration = Duration::from_secs(300);
    /// How often a worker renews it by default.
    pub const HEARTBEAT: Duration = Duration::from_secs(60);
    /// The shortest and the longest lease.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest lease.
    pub const LONGEST: Duration = Duration::from_secs(3_600);

    /// Returns the lease of a worker that wants leases of length `ttl`, after a request that was sent at `sent`, a
    /// time of its monotonic clock, and was granted `lasts`. A worker that renews it less often than three times in
    /// its length is made to.
    #[must_use]
    pub fn new(sent: Duration, lasts: Duration, ttl: Duration, heartbeat: Duration) -> Self {
        let end = sent.saturating_add(lasts);
        Self { sent, end, margin: ttl / MARGIN_PARTS, heartbeat: heartbeat.min(ttl / 3) }
    }

    /// Notes that a heartbeat which was sent at `sent` was granted `lasts`. Answers may come in another order than the
    /// requests were sent in.
    pub fn renew(&mut self, sent: Duration, lasts: Duration) {
        self.sent = self.sent.max(sent);
        self.end = self.end.max(sent.saturating_add(lasts));
    }

    /// Returns when the next heartbeat is to be sent.
    #[must_use]
    pub fn next_heartbeat(&self) -> Duration {
        self.sent.saturating_add(self.heartbeat)
    }

    /// Returns when the worker has to begin to end its sandbox, whether or not anything answers. Only after the
    /// sandbox is gone may it report that it gives the task back.
    #[must_use]
    pub fn stop(&self) -> Duration {
        self.end.saturating_sub(self.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::Lease;
    use crate::testing::seconds;

    fn lease() -> Lease {
        Lease::new(seconds(7), Lease::TTL, Lease::TTL, Lease::HEARTBEAT)
    }

    #[test]
    fn worker_stops_a_tenth_before_the_lease_ends() {
        assert_eq!((lease().next_heartbeat(), lease().stop()), (seconds(67), seconds(277)));
    }

    #[test]
    fn answer_to_an_older_heartbeat_shortens_nothing() {
        let mut lease = lease();
        lease.renew(seconds(60), Lease::TTL);
        lease.renew(seconds(30), Lease::TTL);
        assert_eq!(lease.stop(), seconds(330));
    }

    #[test]
    fn worker_keeps_its_margin_when_it_is_granted_little() {
        let mut lease = lease();
        lease.renew(seconds(200), seconds(110));
        assert_eq!(lease.stop(), seconds(280));
        lease.renew(seconds(260), seconds(50));
        assert_eq!(lease.stop(), seconds(280));
    }

    #[test]
    fn short_lease_is_renewed_three_times() {
        let lease = Lease::new(seconds(0), seconds(3), seconds(3), Lease::HEARTBEAT);
        assert_eq!(lease.next_heartbeat(), seconds(1));
    }
}
