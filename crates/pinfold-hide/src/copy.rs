//! Copying a file between file systems with all that belongs to it.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Timespec, Timestamps};
use rustix::fs::{fchmod, fchown, fgetxattr, flistxattr, fsetxattr, fstat, futimens, openat};
use rustix::process::{Gid, Uid};

/// Bytes that the attributes of a file take at most (`XATTR_SIZE_MAX` in Linux).
const LARGEST_ATTRIBUTE: usize = 64 << 10;

/// Copies a regular file with its owner, mode, attributes and times, and writes it to the disk.
///
/// # Errors
/// Returns the error of the call that failed. No copy is left then.
pub(super) fn copy(from: &OwnedFd, name: &Path, to: &OwnedFd, new: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = File::from(openat(from, name, flags, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy = File::from(openat(to, new, flags, Mode::RUSR | Mode::WUSR)?);
    let filled = fill(&source, &copy);
    if filled.is_err() {
        let _ = rustix::fs::unlinkat(to, new, rustix::fs::AtFlags::empty());
    }
    filled
}

fn fill(source: &File, mut copy: &File) -> io::Result<()> {
    io::copy(&mut { source }, &mut copy)?;
    let stat = fstat(source)?;
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    fchown(copy, Some(uid), Some(gid))?;
    attributes(source, copy)?;
    fchmod(copy, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
    #[expect(clippy::useless_conversion, reason = "the type differs between architectures")]
    let time = |seconds: i64, nanoseconds: u64| Timespec {
        tv_sec: seconds.into(),
        tv_nsec: nanoseconds as _,
    };
    futimens(
        copy,
        &Timestamps {
            last_access: time(stat.st_atime, stat.st_atime_nsec),
            last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
        },
    )?;
    copy.sync_all()
}

/// Copies extended attributes. Those of the system that the user may not set stay behind.
fn attributes(from: impl AsFd, to: impl AsFd) -> io::Result<()> {
    let mut names = vec![0; LARGEST_ATTRIBUTE];
    let length = match flistxattr(&from, names.as_mut_slice()) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(()),
        length => length?,
    };
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; LARGEST_ATTRIBUTE];
        let name = std::ffi::OsStr::from_bytes(name);
        let length = fgetxattr(&from, name, value.as_mut_slice())?;
        let set = fsetxattr(&to, name, &value[..length], rustix::fs::XattrFlags::empty());
        if name.as_bytes().starts_with(b"user.") {
            set?;
        }
    }
    Ok(())
}

/// Returns whether two regular files hold the same bytes.
pub(super) fn are_equal(one: &Path, other: &Path) -> bool {
    let open = |path: &Path| {
        let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
        is_file.then(|| File::open(path).map(BufReader::new).ok()).flatten()
    };
    let (Some(mut one), Some(mut other)) = (open(one), open(other)) else { return false };
    loop {
        let (Ok(here), Ok(there)) = (one.fill_buf(), other.fill_buf()) else { return false };
        let common = here.len().min(there.len());
        if common == 0 {
            return here.is_empty() && there.is_empty();
        }
        if here[..common] != there[..common] {
            return false;
        }
        one.consume(common);
        other.consume(common);
    }
}
