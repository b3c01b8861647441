//! The second wall, from the same entries as the mounts (landlock(7)).
//!
//! Landlock rules only allow, and reach everything beneath a place, so what is denied within a
//! grant rests on the mounts alone. In return Landlock also holds for descriptors that lead out
//! of the mount tree, and keeps the command away from init.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
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

/// The oldest ABI whose domains keep signals and abstract sockets in (Linux 6.12).
pub(crate) const OLDEST_SCOPED: u32 = 6;

/// Returns the ABI of this kernel; 0 without Landlock.
pub(crate) fn abi() -> u32 {
    sys::landlock::abi().unwrap_or(0)
}

/// What an ABI knows.
#[derive(Debug, Clone, Copy)]
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
    Known { files, scopes: if abi >= OLDEST_SCOPED { 0b11 } else { 0 } }
}

/// Keeps signals and abstract sockets in the sandbox where its files have no rules: a domain that says nothing of files lets
/// programs change mounts (`landlock_get_applicable_subject`, security/landlock/fs.c). Does nothing where the kernel cannot do
/// that.
///
/// # Errors
/// Returns the error of `landlock_create_ruleset(2)` and `landlock_restrict_self(2)`.
pub(super) fn scope() -> Result<(), Errno> {
    match known(sys::landlock::abi().unwrap_or(0)).scopes {
        0 => Ok(()),
        scopes => sys::landlock::restrict(sys::landlock::create(0, scopes)?.as_fd()),
    }
}

/// Keeps signals and abstract sockets in, and allows everything of files. Links and renames between directories have to be
/// allowed by every domain around a process, also by one that says nothing of files (landlock(7), `LANDLOCK_ACCESS_FS_REFER`).
///
/// # Errors
/// Returns the error of `landlock_create_ruleset(2)`, `landlock_add_rule(2)` and `landlock_restrict_self(2)`.
pub(crate) fn scope_all(abi: u32) -> Result<(), Errno> {
    let rules = sys::landlock::create(REFER, known(abi).scopes)?;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    sys::landlock::allow(rules.as_fd(), root.as_fd(), REFER)?;
    sys::landlock::restrict(rules.as_fd())
}

/// Opens something by a path that no symbolic link may be on.
///
/// # Errors
/// Returns `ELOOP` for a link; the error of `openat2(2)`.
pub(crate) fn open_real(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), how)
}

/// What a rule allows beneath a place.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Allowed {
    /// Reading and executing.
    Read,
    /// Using devices.
    Device,
    /// Writing to files that are there.
    Write,
    /// Everything but making devices.
    Change,
}

/// Rules that are ready to be applied.
pub(crate) struct Ruleset {
    rules: OwnedFd,
    known: Known,
}

impl Ruleset {
    /// Returns the rules for a sandbox that may write below these paths, at an ABI that is of use;
    /// called inside the new root.
    ///
    /// # Errors
    /// Returns the error of `landlock_create_ruleset(2)` and `landlock_add_rule(2)`.
    pub(super) fn of_root(abi: u32, below: &[Vec<u8>]) -> Result<Self, Errno> {
        let rules = Self::new(abi)?;
        // Everything in the fresh root is there because it was granted for reading at least, so
        // one rule says it for all. What is not beneath this root is beneath no rule.
        rules.allow("/", Allowed::Read)?;
        rules.allow("/dev", Allowed::Device)?;
        // oom_score_adj, comm and the like; what matters there is the kernel's to refuse.
        rules.allow("/proc", Allowed::Write)?;
        for path in below {
            rules.allow(OsStr::from_bytes(path), Allowed::Change)?;
        }
        Ok(rules)
    }

    /// Returns rules that allow nothing, at an ABI that is of use.
    ///
    /// # Errors
    /// Returns the error of `landlock_create_ruleset(2)`.
    pub(crate) fn new(abi: u32) -> Result<Self, Errno> {
        let known = known(abi);
        Ok(Self { rules: sys::landlock::create(known.files, known.scopes)?, known })
    }

    /// Allows something beneath a place, if that is there: an agent's file in a private directory may not
    /// be there yet.
    ///
    /// # Errors
    /// Returns the error of `open(2)` and `landlock_add_rule(2)`.
    pub(crate) fn allow(&self, path: impl AsRef<Path>, allowed: Allowed) -> Result<(), Errno> {
        let open = |more| {
            let flags = OFlags::PATH | OFlags::CLOEXEC | more;
            rustix::fs::open(path.as_ref(), flags, Mode::empty())
        };
        // Without `O_DIRECTORY` a mount that the kernel makes when somebody looks, as it does in a machine, is not made
        // (open(2), O_PATH), and a rule for the directory below it allows nothing in it.
        let place = match open(OFlags::DIRECTORY) {
            Err(Errno::NOTDIR) => open(OFlags::empty()),
            opened => opened,
        };
        match place {
            Ok(place) => self.allow_at(&place, allowed),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Allows something beneath a place of the host's, on whose path no symbolic link may be.
    ///
    /// # Errors
    /// Returns `ELOOP` for a link; the error of `openat2(2)` and `landlock_add_rule(2)`.
    pub(crate) fn allow_real(&self, path: &Path, allowed: Allowed) -> Result<(), Errno> {
        self.allow_at(&open_real(path, OFlags::PATH)?, allowed)
    }

    fn allow_at(&self, place: &OwnedFd, allowed: Allowed) -> Result<(), Errno> {
        let access = match allowed {
            Allowed::Read => READ,
            Allowed::Device => DEVICE,
            Allowed::Write => WRITE_FILE | TRUNCATE,
            Allowed::Change => !(MAKE_CHAR | MAKE_BLOCK),
        };
        let mode = rustix::fs::fstat(place)?.st_mode;
        let is_directory = FileType::from_raw_mode(mode) == FileType::Directory;
        let access = access & self.known.files & if is_directory { u64::MAX } else { OF_FILES };
        sys::landlock::allow(self.rules.as_fd(), place.as_fd(), access)
    }

    /// Restricts the calling process for good.
    ///
    /// # Errors
    /// Returns the error of `landlock_restrict_self(2)`.
    pub(crate) fn restrict(self) -> Result<(), Errno> {
        sys::landlock::restrict(self.rules.as_fd())
    }

    /// Returns the rules for another process to be restricted by.
    pub(crate) fn into_rules(self) -> OwnedFd {
        self.rules
    }
}
