//! Files and directories of a request: which of them a caller may have, and opening these.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat};
use rustix::io::Errno;

use crate::accounts::Account;
use crate::caller::Caller;
use crate::refusal::Refusal;
use crate::request::Wanted;

/// What a caller may have.
#[derive(Debug)]
pub struct Allowed<'a> {
    /// The user who asks.
    pub caller: &'a Caller,
    /// The caller's account.
    pub account: &'a Account,
    /// Directories, and what is below them.
    pub directories: &'a [PathBuf],
}

impl Allowed<'_> {
    /// Opens what lies at a path with the caller's rights, if it is what the caller has opened itself. A name means
    /// something else in a mount namespace of the caller's own, and may have been given to another file since.
    ///
    /// # Errors
    /// Returns that it lies in none of the directories, that a link leads there, that the caller may not reach it,
    /// or that it is something else.
    pub fn open(&self, wanted: &Wanted, theirs: impl AsFd) -> Result<OwnedFd, Refusal> {
        let path = wanted.path.as_path();
        let shown = path.display();
        if !is_in(self.directories, path) {
            let all = self.directories.iter();
            let given: Vec<_> = all.map(|it| it.display().to_string()).collect();
            return Err(Refusal::new(
                format!("{shown} is in no project of {}", self.account.name),
                format!("the administrator gives: {}", given.join(", ")),
            ));
        }
        let opened = self.caller.act(|| open(path)).and_then(|opened| opened);
        let ours = opened.map_err(|errno| match errno {
            Errno::LOOP => Refusal::new(
                format!("a symbolic link is on the path {shown}"),
                "use the path that the link leads to",
            ),
            errno => Refusal::at(&shown)(errno),
        })?;
        let here = fstat(&ours).map_err(Refusal::at(&shown))?;
        let there = fstat(theirs).map_err(Refusal::at(&shown))?;
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino) {
            return Err(Refusal::new(
                format!("{shown} is not the file that was handed over"),
                "start pinfold in the mount namespace of the host, and not while others move its files",
            ));
        }
        match FileType::from_raw_mode(here.st_mode) {
            FileType::RegularFile | FileType::Directory => Ok(ours),
            _ => Err(Refusal::plain(format!("{shown} is neither a file nor a directory"))),
        }
    }
}

/// Returns whether a path lies in one of these directories, or is one.
pub fn is_in(directories: &[PathBuf], path: &Path) -> bool {
    directories.iter().any(|root| path.starts_with(root))
}

/// Opens what lies at a path, to which no link leads.
///
/// # Errors
/// Returns the error of `openat2(2)`: `ELOOP` for a link.
pub fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), how)
}

#[cfg(test)]
mod tests;
