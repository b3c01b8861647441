//! The directories that the service user has for each host user: what is remembered of the user, and caches of tools.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat};

use crate::caller::Caller;
use crate::installed;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::{accounts::Account, mounts};

const CACHE: &str = "cache";

/// Returns mounts of both. The first is there since the set-up; the second is made if it is not, with the service user's
/// rights alone.
///
/// # Errors
/// Returns which of them is not available, or is not the service user's alone.
pub(crate) fn mounts(
    policy: &Policy,
    host_user: &str,
    service: &Account,
) -> Result<[OwnedFd; 2], Refusal> {
    let path = installed::canonical(&policy.state_dir).join("users").join(host_user);
    let own = open(CWD, &path, &path, service)?;
    let make = || {
        // One that could not be made is missed when it is opened.
        let _ = mkdirat(&own, CACHE, Mode::RWXU);
    };
    Caller::of_ids(service.uid, service.gid).act(make).map_err(Refusal::plain)?;
    let cache = open(&own, Path::new(CACHE), &path.join(CACHE), service)?;
    let mount = |file: &OwnedFd| mounts::grant(file, true, None, &path.display().to_string());
    Ok([mount(&own)?, mount(&cache)?])
}

fn open(
    at: impl std::os::fd::AsFd,
    name: &Path,
    path: &Path,
    service: &Account,
) -> Result<OwnedFd, Refusal> {
    let (shown, owner) = (path.display(), &service.name);
    let hint = format!("`install -d -m 700 -o {owner} {shown}`, as root");
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat2(at, name, flags, Mode::empty(), how)
        .and_then(|opened| Ok((rustix::fs::fstat(&opened)?, opened)));
    let (stat, opened) =
        opened.map_err(|errno| Refusal::new(format!("{shown}: {errno}"), &hint))?;
    // A session may change the mode of its caches, which lie in what is private.
    let is_private = stat.st_mode & 0o077 == 0 || name == Path::new(CACHE);
    if stat.st_uid == service.uid && is_private {
        return Ok(opened);
    }
    Err(Refusal::new(format!("{shown} is not {owner}'s alone"), hint))
}
