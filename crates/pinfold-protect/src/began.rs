//! When a session began, to be compared with what the kernel notes of files.

use std::time::Duration;

use rustix::fs::Statx;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A moment, by the clock that file systems use and by one that nobody sets.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub struct Began {
    /// Since 1970, as in a file's change time.
    real: Duration,
    /// Since the machine started, with the time that it slept.
    boot: Duration,
}

impl Began {
    /// Returns this moment.
    pub fn now() -> Self {
        // The kernel's clock for files is never behind this one.
        Self { real: read(ClockId::RealtimeCoarse), boot: read(ClockId::Boottime) }
    }

    /// Returns this moment by the clock as it is set now, if somebody has set it back since.
    pub fn by_the_clock(self) -> Self {
        self.by(Self { real: read(ClockId::RealtimeCoarse), boot: read(ClockId::Boottime) })
    }

    fn by(self, now: Self) -> Self {
        // After another start of the machine this says nothing.
        let Some(passed) = now.boot.checked_sub(self.boot) else { return self };
        Self { real: self.real.min(now.real.saturating_sub(passed)), boot: self.boot }
    }

    /// Returns the earlier one of two moments.
    pub fn or_earlier(self, other: Self) -> Self {
        if other.real < self.real { other } else { self }
    }

    /// Returns whether a file was changed, renamed or made after this moment.
    pub(crate) fn is_before(&self, found: &Statx) -> bool {
        let changed = &found.stx_ctime;
        self.may_precede(changed.tv_sec, changed.tv_nsec.into())
    }

    /// Returns whether a change of this time, as a file system notes it, may have come after this
    /// moment.
    pub(crate) fn may_precede(&self, seconds: i64, nanoseconds: u64) -> bool {
        let seconds = u64::try_from(seconds).unwrap_or_default();
        let nanoseconds = u32::try_from(nanoseconds).unwrap_or_default().min(999_999_999);
        Duration::new(seconds, nanoseconds) + granularity(nanoseconds) >= self.real
    }
}

/// Returns how much later a change may have been than its time says: some file systems cut times off,
/// ext4 with inodes of 128 bytes to seconds, FAT to two, exFAT to hundredths. The granularity is read
/// off the time.
fn granularity(nanoseconds: u32) -> Duration {
    match nanoseconds {
        0 => Duration::from_secs(2),
        cut if cut % 1_000_000 == 0 => Duration::from_millis(10),
        _ => Duration::ZERO,
    }
}

fn read(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

    use super::*;

    #[test]
    fn a_clock_that_was_set_back_is_followed() {
        let seconds = Duration::from_secs;
        let began = Began { real: seconds(1000), boot: seconds(50) };
        let at = |real, boot| began.by(Began { real: seconds(real), boot: seconds(boot) }).real;
        assert_eq!(at(1010, 60), seconds(1000));
        assert_eq!(at(510, 60), seconds(500));
        assert_eq!(at(5010, 60), seconds(1000));
        assert_eq!(at(2000, 5), seconds(1000));
    }

    #[test]
    fn times_that_a_file_system_cuts_off_count_as_later_ones() {
        let began = Began { real: Duration::new(1000, 300_400_500), ..Began::default() };
        assert!(began.may_precede(1000, 0) && began.may_precede(999, 0));
        assert!(began.may_precede(1000, 300_000_000) && !began.may_precede(1000, 290_000_000));
        assert!(!began.may_precede(1000, 300_400_499) && began.may_precede(1000, 300_400_500));
        assert!(!began.may_precede(998, 0));
    }

    #[test]
    fn files_that_are_made_afterwards_are_later() {
        let dir = tempfile::tempdir().unwrap();
        let began = Began::now();
        let path = dir.path().join("file");
        std::fs::write(&path, "").unwrap();
        let found = statx(CWD, &path, AtFlags::empty(), StatxFlags::CTIME).unwrap();
        assert!(began.is_before(&found));
        std::thread::sleep(Duration::from_millis(60));
        assert!(!Began::now().is_before(&found));
    }
}
