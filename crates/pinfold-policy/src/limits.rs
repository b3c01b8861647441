//! Limits on what a session may use, with their units (requirement 2.4).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::origin::Valued;

/// A number of bytes, written with a binary unit: `512M` is 512 × 1024² (`K`, `M`, `G`, `T`). Small letters are
/// the same, as for container engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

/// Thousandths of a CPU: `1500` is one and a half.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliCpus(u32);

/// A wall-clock time, written as `90s`, `15m`, `2h 30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(Duration);

/// Why a limit cannot be read. The text names what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitError {
    /// Not a size.
    #[error("expected a size such as \"8G\" or \"512M\"")]
    Size,
    /// Not a number of CPUs.
    #[error("expected a number of CPUs between 0.001 and 65536, such as 2 or 0.5")]
    Cpus,
    /// Not a duration.
    #[error("expected a duration such as \"90s\" or \"2h\"")]
    Time,
    /// Zero, which would end every run at once.
    #[error("expected more than zero")]
    Zero,
}

impl ByteSize {
    /// Returns a size in bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// Returns the size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let shift = match &text[digits.len()..] {
            "" | "B" => 0,
            "K" | "k" | "KiB" => 10,
            "M" | "m" | "MiB" => 20,
            "G" | "g" | "GiB" => 30,
            "T" | "t" | "TiB" => 40,
            _ => return Err(LimitError::Size),
        };
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(LimitError::Size);
        }
        let count: u64 = digits.parse().map_err(|_| LimitError::Size)?;
        match count.checked_mul(1 << shift) {
            None => Err(LimitError::Size),
            Some(0) => Err(LimitError::Zero),
            Some(bytes) => Ok(Self(bytes)),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
            if self.0 != 0 && self.0.trailing_zeros() >= shift {
                return write!(f, "{}{unit}", self.0 >> shift);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl MilliCpus {
    /// Thousandths of a CPU.
    #[must_use]
    pub const fn new(thousandths: u32) -> Self {
        Self(thousandths)
    }

    /// Thousandths of a CPU.
    #[must_use]
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// Makes the limit of a number of CPUs.
    ///
    /// # Errors
    /// Returns an error when the number is not finite, is less than a thousandth, or is more than 65
    /// 536.
    pub fn from_cpus(cpus: f64) -> Result<Self, LimitError> {
        if !(0.001..=65_536.0).contains(&cpus) {
            return Err(LimitError::Cpus);
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range was checked on the line above"
        )]
        Ok(Self((cpus * 1000.0).round() as u32))
    }
}

impl FromStr for MilliCpus {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::from_cpus(text.parse().map_err(|_| LimitError::Cpus)?)
    }
}

impl fmt::Display for MilliCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 1000.0)
    }
}

impl WallTime {
    /// Makes the limit of a duration.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        Self(duration)
    }

    /// Returns the duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for WallTime {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        match humantime::parse_duration(text) {
            Err(_) => Err(LimitError::Time),
            Ok(Duration::ZERO) => Err(LimitError::Zero),
            Ok(duration) => Ok(Self(duration)),
        }
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

/// The limits of a session. A limit that is absent is not set.
///
/// The origin decides what happens where a boundary cannot enforce a limit: one that somebody
/// chose is refused, a default is left out and reported ([`crate::origin::Origin::is_chosen`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPU time per wall-clock time.
    pub cpus: Option<Valued<MilliCpus>>,
    /// Memory of all processes together, tmpfs included.
    pub memory: Option<Valued<ByteSize>>,
    /// Processes and threads.
    pub pids: Option<Valued<u64>>,
    /// Bytes that private writable file systems may hold.
    pub disk: Option<Valued<ByteSize>>,
    /// Open files of each process (`RLIMIT_NOFILE`).
    pub files: Option<Valued<u64>>,
    /// Wall-clock time from start to end.
    pub timeout: Option<Valued<WallTime>>,
    /// Bytes of the disk that a snapshot's base may fill, and its set-up commands as many.
    pub build: Option<Valued<ByteSize>>,
}

impl Limits {
    /// 8 GiB: what a large build and a full-screen agent need together. The session lowers a
    /// default to what the machine has.
    pub const DEFAULT_MEMORY: ByteSize = ByteSize::from_bytes(8 << 30);

    /// 4096: more than the widest parallel builds use, far below `kernel.pid_max` (32 768 on
    /// small machines, proc_sys_kernel(5)), so that a fork bomb leaves the host usable.
    pub const DEFAULT_PIDS: u64 = 4096;

    /// 65 536 descriptors: what build tools and file watchers ask for. The session lowers a
    /// default to the caller's hard limit, which cannot be raised without privilege.
    pub const DEFAULT_FILES: u64 = 65_536;

    /// 32 GiB: three times what Debian with all of its desktop has, or the largest images of
    /// frameworks for graphics processors.
    pub const DEFAULT_BUILD: ByteSize = ByteSize::from_bytes(32 << 30);

    /// Returns the limits when nobody says anything: memory, pids, files, and the disk for builds.
    #[must_use]
    pub fn defaults() -> Self {
        Self {
            memory: Some(Valued::default_of(Self::DEFAULT_MEMORY)),
            pids: Some(Valued::default_of(Self::DEFAULT_PIDS)),
            files: Some(Valued::default_of(Self::DEFAULT_FILES)),
            build: Some(Valued::default_of(Self::DEFAULT_BUILD)),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
