//! The directory that a group's sandboxes and the host share.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use pinfold_host::Refusal;
use pinfold_host::beneath::{list_beneath, open_directory, read_bounded};
use pinfold_host::digest::name_of;
use pinfold_policy::path::Escaped;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::request::{LONGEST, Request};

/// Where requests for tasks are, and where invalid ones are put.
const TASKS: &str = "tasks";
const ERRORS: &str = "errors";
/// What the name of a request ends with.
const ENDING: &str = ".json";
/// The longest name of a request that is kept, in bytes.
const LONGEST_NAME: usize = 100;
/// How many names are looked at: a sandbox may make any number.
const LOOKED_AT: usize = 4_096;

/// The directory of a group's requests.
#[derive(Debug)]
pub struct Mailbox {
    directory: OwnedFd,
    path: PathBuf,
}

/// A request that was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// What it asks for.
    pub request: Request,
    /// A digest of its name and content.
    pub digest: String,
    /// When its file was changed last, in seconds since 1970. A sandbox can set it forward alone, by writing again.
    pub written: u64,
}

/// Why a mailbox cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {error}", Escaped(.path))]
pub struct MailboxError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
}

impl Mailbox {
    /// Opens the directory of a group below the root of all groups (`data/ipc/<folder>`); none if nothing made it yet.
    ///
    /// # Errors
    /// Returns an error for one that is, or lies behind, a link.
    pub fn open(root: &Path, folder: &str) -> Result<Option<Self>, MailboxError> {
        let path = root.join("data/ipc").join(folder);
        let failed = |error: io::Error| MailboxError { what: "open", path: path.clone(), error };
        let root = std::fs::canonicalize(root).map_err(failed)?;
        let root = open_directory(&root).map_err(|errno| failed(errno.into()))?;
        match beneath(&root, &Path::new("data/ipc").join(folder)) {
            Ok(directory) => Ok(Some(Self { directory, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Returns the names of requests, sorted, at most so many. What is still being written has another name.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be listed.
    pub fn names(&self, most: usize) -> Result<Vec<OsString>, MailboxError> {
        let listed = match list_beneath(&self.directory, Path::new(TASKS)) {
            Ok(listed) => listed,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => {
                let path = self.path.join(TASKS);
                return Err(MailboxError { what: "list", path, error: errno.into() });
            }
        };
        let names = listed.take(LOOKED_AT).flatten().map(|entry| entry.file_name());
        let is_request = |name: &OsString| {
            !name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(ENDING.as_bytes())
        };
        let mut names: Vec<OsString> = names.filter(is_request).collect();
        names.sort();
        names.truncate(most);
        Ok(names)
    }

    /// Reads a request; none if it is gone.
    ///
    /// # Errors
    /// Returns what is wrong with it, in words for the agent.
    pub fn read(&self, name: &OsStr) -> Result<Option<Found>, Refusal> {
        let path = Path::new(TASKS).join(name);
        let content = read_bounded(&self.directory, &path, LONGEST)
            .map_err(|unread| format!("the file {unread}"))?;
        let Some(content) = content else { return Ok(None) };
        if !is_name(name) {
            return Err(Refusal::new(format!(
                "the name is not of at most {LONGEST_NAME} letters, digits, '-' and '_'"
            )));
        }
        let request = Request::read(&content.bytes)?;
        let digest = name_of(&[name.as_bytes(), b"\0", &content.bytes].concat());
        let written = u64::try_from(content.changed_at).unwrap_or(0);
        Ok(Some(Found { request, digest, written }))
    }

    /// Removes a request that was taken.
    ///
    /// # Errors
    /// Returns the error of unlinkat(2).
    pub fn remove(&self, name: &OsStr) -> Result<(), MailboxError> {
        let removed = beneath(&self.directory, Path::new(TASKS))
            .and_then(|tasks| unlinkat(tasks, name, AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.failed("remove", name, errno)),
        }
    }

    /// Moves what is no request to `errors`, with the reason next to it. Removes it if it cannot be moved.
    ///
    /// # Errors
    /// Returns an error if it stays where it is.
    pub fn set_aside(&self, name: &OsStr, reason: &str) -> Result<(), MailboxError> {
        let kept: OsString = if is_name(name) {
            name.to_owned()
        } else {
            format!("{}{ENDING}", &name_of(name.as_bytes())[..16]).into()
        };
        let tasks = beneath(&self.directory, Path::new(TASKS))
            .map_err(|errno| self.failed("set aside", name, errno))?;
        let moved = self.errors().and_then(|errors| {
            if renameat(&tasks, name, &errors, &kept).is_ok() {
                return Ok((errors, kept));
            }
            // An earlier one with this name is in the way.
            let mut random = [0; 8];
            getrandom(&mut random, GetRandomFlags::empty())?;
            let kept = format!("{}{ENDING}", HEXLOWER.encode(&random)).into();
            renameat(&tasks, name, &errors, &kept)?;
            Ok((errors, kept))
        });
        match moved {
            Ok((errors, kept)) => {
                // Without it the agent finds the request only.
                let _ = write_reason(&errors, &kept, reason);
                Ok(())
            }
            Err(_) => self.remove(name),
        }
    }

    fn errors(&self) -> Result<OwnedFd, Errno> {
        match mkdirat(&self.directory, ERRORS, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => beneath(&self.directory, Path::new(ERRORS)),
            Err(errno) => Err(errno),
        }
    }

    fn failed(&self, what: &'static str, name: &OsStr, errno: Errno) -> MailboxError {
        MailboxError { what, path: self.path.join(TASKS).join(name), error: errno.into() }
    }
}

/// Opens a directory beneath another one, following no link.
fn beneath(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(directory, path, flags, Mode::empty(), how)
}

fn write_reason(errors: &OwnedFd, name: &OsStr, reason: &str) -> io::Result<()> {
    let mut name = name.to_owned();
    name.push(".reason");
    // Never into a file that a sandbox made.
    match unlinkat(errors, &name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(errors, &name, flags, Mode::RUSR | Mode::WUSR)?;
    File::from(file).write_all(format!("{reason}\n").as_bytes())
}

fn is_name(name: &OsStr) -> bool {
    let stem = name.as_bytes().strip_suffix(ENDING.as_bytes()).unwrap_or_default();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_NAME).contains(&stem.len()) && stem.iter().all(is_part)
}

#[cfg(test)]
mod tests;
