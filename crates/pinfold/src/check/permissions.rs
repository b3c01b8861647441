//! What the permissions of a file refuse although the policy allows it.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_boundary::namespace::inside_owner;
use pinfold_policy::access::Access;
use pinfold_policy::authority::Grant;
use pinfold_policy::path::Escaped;
use rustix::fs::{Access as Mode, AtFlags, CWD, accessat};
use rustix::io::Errno;

use super::PathAccess;

/// Returns why the kernel refuses an access to a file below a grant that the policy allows, if it does. `is_closable` says that
/// a read-only grant which others may not read is not shown as the sandbox's own (ADR 225, 226).
///
/// # Errors
/// Returns the error of `stat(2)`.
pub(super) fn refusal(
    grant: &Grant,
    file: &Path,
    asked: PathAccess,
    is_closable: bool,
) -> io::Result<Option<String>> {
    let refusing = if inside_owner().is_some() {
        refuses_sandbox_of_root(grant, file, asked, is_closable)?
    } else {
        refuses_caller(file, asked).then(|| file.to_owned())
    };
    let Some(path) = refusing else { return Ok(None) };
    let found = std::fs::symlink_metadata(&path)?;
    let (mode, owner, group) = (found.mode() & 0o7777, found.uid(), found.gid());
    Ok(Some(format!(
        "the permissions of {} ({mode:04o}, owner {owner}, group {group}) do not allow it to a sandbox",
        Escaped(&path)
    )))
}

/// Returns whether a file is closed to the caller, whose rights a sandbox has.
fn refuses_caller(file: &Path, asked: PathAccess) -> bool {
    let mode = match asked {
        PathAccess::Read => Mode::READ_OK,
        PathAccess::Write => Mode::WRITE_OK,
        PathAccess::Exec => Mode::EXEC_OK,
    };
    accessat(CWD, file, mode, AtFlags::EACCESS) == Err(Errno::ACCESS)
}

/// Returns what on the way to a file is closed to a sandbox of root's, which has nobody's rights, and those of the owner of a
/// grant that is shown as its own.
fn refuses_sandbox_of_root(
    grant: &Grant,
    file: &Path,
    asked: PathAccess,
    is_closable: bool,
) -> io::Result<Option<PathBuf>> {
    const EXECUTE: u32 = 0o1;
    let root = std::fs::metadata(grant.root.host.as_path())?;
    let for_all = if root.is_dir() { 0o5 } else { 0o4 };
    let is_closed = root.mode() & for_all != for_all;
    let is_own = grant.access == Access::FULL || is_closed && !is_closable;
    let is_allowed = |path: &Path, needed: u32| {
        let found = std::fs::symlink_metadata(path)?;
        let class = if is_own && found.uid() == root.uid() {
            6
        } else if is_own && found.gid() == root.gid() {
            3
        } else {
            0
        };
        io::Result::Ok(found.mode() >> class & needed == needed)
    };
    let below = file.strip_prefix(grant.root.host.as_path()).unwrap_or(Path::new(""));
    let mut directories: Vec<&Path> = file.ancestors().skip(1).take(below.iter().count()).collect();
    directories.reverse();
    for directory in directories {
        if !is_allowed(directory, EXECUTE)? {
            return Ok(Some(directory.to_owned()));
        }
    }
    let needed = match asked {
        PathAccess::Read => 0o4,
        PathAccess::Write => 0o2,
        PathAccess::Exec => EXECUTE,
    };
    Ok((!is_allowed(file, needed)?).then(|| file.to_owned()))
}
