//! Walking a directory by the rules of ripgrep.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{Walk, WalkBuilder};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::error::{ErrorKind, ToolError};

/// The directory of git's that nobody means.
const GIT: &str = ".git";

/// Taking back something that goes on.
#[derive(Debug)]
pub(crate) struct Cancel {
    flag: AtomicBool,
    /// Readable once it is taken back (eventfd(2)).
    pub(crate) event: rustix::fd::OwnedFd,
}

impl Cancel {
    pub(crate) fn new() -> Result<Self, Errno> {
        let event = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { flag: AtomicBool::new(false), event })
    }

    pub(crate) fn cancel(&self) {
        self.flag.store(true, Ordering::Relaxed);
        // It can only be readable already.
        let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// # Errors
    /// That it was taken back.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }
}

/// A walk in the order of names, so that the same question has the same answer. Hidden files are part
/// of it, `.git` is not, links are not followed, and nothing of the user's own rules counts.
pub(crate) fn walk(root: &Path, ignored: bool, globs: Override) -> Walk {
    WalkBuilder::new(root)
        .hidden(false)
        .parents(!ignored)
        .ignore(!ignored)
        .git_ignore(!ignored)
        .git_exclude(!ignored)
        .git_global(false)
        .overrides(globs)
        .filter_entry(|entry| entry.file_name() != GIT || entry.depth() == 0)
        .sort_by_file_name(std::ffi::OsStr::cmp)
        .build()
}

/// Globs as `--glob` of ripgrep has them.
///
/// # Errors
/// One that cannot be read.
pub(crate) fn globs(root: &Path, globs: &[String]) -> Result<Override, ToolError> {
    let pattern = |error: ignore::Error| ToolError::new(ErrorKind::Pattern, error.to_string());
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        builder.add(glob).map_err(pattern)?;
    }
    builder.build().map_err(pattern)
}
