//! The second wall, from the same entries as the mounts (landlock(7)).
//!
//! Landlock rules only allow, and reach everything beneath a place, so what is denied within a
//! grant rests on the mounts alone. In return Landlock also holds for descriptors that lead out
//! of the mount tree, and keeps the command away from init.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::plan::{Landlock, LaunchPlan};
use crate::sys;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
const MAKE_SYM: u64 = 1 << 12;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;

/// Only a file can carry these; a rule on a file with others is refused by the kernel.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV;

const READ: u64 = EXECUTE | READ_FILE | READ_DIR;
const DEVICE: u64 = READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | IOCTL_DEV;

/// The oldest ABI that is of use: the first one breaks renames between directories.
pub const OLDEST: u32 = 2;

/// Returns the ABI to use for a plan; 0 where the kernel has no useful one, or where the plan gives the
/// second wall up: Landlock forbids changing mounts, so nested sandboxes do without it.
pub(super) fn abi_for(plan: &LaunchPlan) -> u32 {
    let abi = sys::landlock::abi().unwrap_or(0).min(newest_for(plan));
    if abi < OLDEST { 0 } else { abi }
}

/// Returns the newest ABI that a plan wants to be used; 0 for one that does without.
pub(super) fn newest_for(plan: &LaunchPlan) -> u32 {
    match plan.landlock {
        _ if plan.nested => 0,
        Landlock::Required | Landlock::BestEffort => u32::MAX,
        Landlock::AtMost(newest) if newest < OLDEST => 0,
        Landlock::AtMost(newest) => newest,
    }
}

/// Returns the ABI to use for one that was wanted by who did not know this kernel.
///
/// # Errors
/// Returns `EOPNOTSUPP` if this kernel has no useful one.
pub(crate) fn abi_here(wanted: u32) -> Result<u32, Errno> {
    let abi = sys::landlock::abi().unwrap_or(0).min(wanted);
    if wanted > 0 && abi < OLDEST { Err(Errno::OPNOTSUPP) } else { Ok(abi) }
}

/// What an ABI knows.
struct Known {
    files: u64,
    scopes: u64,
}

fn known(abi: u32) -> Known {
    let mut files = ((MAKE_SYM << 1) - 1) | REFER;
    if abi >= 3 {
        files |= TRUNCATE;
    }
    if abi >= 5 {
        files |= IOCTL_DEV;
    }
    // Abstract sockets and signals stay within the domain.
    Known { files, scopes: if abi >= 6 { 0b11 } else { 0 } }
}

/// Rules that are ready to be applied.
pub(super) struct Ruleset(OwnedFd);

impl Ruleset {
    /// Returns the rules for a sandbox that may write below these paths, at an ABI that is of use;
    /// called inside the new root.
    ///
    /// # Errors
    /// Returns the error of `landlock_create_ruleset(2)` and `landlock_add_rule(2)`.
    pub(super) fn new(abi: u32, below: &[Vec<u8>]) -> Result<Self, Errno> {
        let known = known(abi);
        let ruleset = sys::landlock::create(known.files, known.scopes)?;
        let writable = known.files & !(MAKE_CHAR | MAKE_BLOCK);
        let allow = |path: &std::path::Path, access: u64| -> Result<(), Errno> {
            let place = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            {
                Ok(place) => place,
                // An agent's file in a private directory may not be there yet.
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(errno),
            };
            let is_directory =
                rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode)
                    == rustix::fs::FileType::Directory;
            let access = access & known.files & if is_directory { u64::MAX } else { OF_FILES };
            sys::landlock::allow(ruleset.as_fd(), place.as_fd(), access)
        };
        // Everything in the fresh root is there because it was granted for reading at least, so
        // one rule says it for all. What is not beneath this root is beneath no rule.
        allow("/".as_ref(), READ)?;
        allow("/dev".as_ref(), DEVICE)?;
        // oom_score_adj, comm and the like; what matters there is the kernel's to refuse.
        allow("/proc".as_ref(), WRITE_FILE | TRUNCATE)?;
        for path in below {
            allow(OsStr::from_bytes(path).as_ref(), writable)?;
        }
        Ok(Self(ruleset))
    }

    /// Restricts the calling process for good.
    ///
    /// # Errors
    /// Returns the error of `landlock_restrict_self(2)`.
    pub(super) fn restrict(self) -> Result<(), Errno> {
        sys::landlock::restrict(self.0.as_fd())
    }
}
