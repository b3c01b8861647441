//! Landlock (landlock(7)).

use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::io::Errno;

use super::check;

/// Calls landlock_create_ruleset(2) with a ruleset.
///
/// # Errors
/// Returns `ENOSYS` or `EOPNOTSUPP` where Landlock is absent or off.
pub(crate) fn create(fs: u64, scoped: u64) -> Result<OwnedFd, Errno> {
    #[repr(C)]
    struct RulesetAttr {
        handled_access_fs: u64,
        handled_access_net: u64,
        scoped: u64,
    }
    let attr = RulesetAttr { handled_access_fs: fs, handled_access_net: 0, scoped };
    // A kernel that knows less wants a shorter structure, or zeros at the end: both hold.
    let size = if scoped == 0 { size_of::<u64>() } else { size_of::<RulesetAttr>() };
    // SAFETY: `attr` outlives the call and is at least `size` bytes.
    let returned = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attr, size, 0)
    })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(returned as RawFd) })
}

/// Returns the Landlock ABI of the running kernel.
///
/// # Errors
/// Returns `ENOSYS` or `EOPNOTSUPP` where Landlock is absent or off.
pub(crate) fn abi() -> Result<u32, Errno> {
    const VERSION: u32 = 1;
    // SAFETY: with the version flag the kernel reads no structure.
    let returned = check(unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION)
    })?;
    Ok(returned as u32)
}

/// Allows `access` beneath `place` (landlock_add_rule(2)).
///
/// # Errors
/// Returns the error of `landlock_add_rule(2)`.
pub(crate) fn allow(
    ruleset: BorrowedFd<'_>,
    place: BorrowedFd<'_>,
    access: u64,
) -> Result<(), Errno> {
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }
    const PATH_BENEATH: u32 = 1;
    let attr = PathBeneath { allowed_access: access, parent_fd: place.as_raw_fd() };
    // SAFETY: `attr` outlives the call and has the layout of landlock_path_beneath_attr.
    check(unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_raw_fd(),
            PATH_BENEATH,
            &raw const attr,
            0,
        )
    })?;
    Ok(())
}

/// Restricts the calling thread (landlock_restrict_self(2)).
///
/// # Errors
/// Returns the error of `landlock_restrict_self(2)`.
pub(crate) fn restrict(ruleset: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: integer arguments only.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}
