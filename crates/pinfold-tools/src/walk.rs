//! Walking a directory by the rules of ripgrep.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ignore::overrides::{Override, OverrideBuilder};
use ignore::{DirEntry, Walk, WalkBuilder, WalkParallel};
use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use rustix::io::Errno;

use crate::error::{ErrorKind, ToolError};
use crate::rules;

/// The directory of git's that nobody means.
pub(crate) const GIT: &str = ".git";
/// Ripgrep's own file of rules, which it heeds before the others.
pub(crate) const RIPGREP: &str = ".rgignore";

/// Globs of one search.
const GLOBS: usize = 256;
/// Bytes of a pattern. What is built of one can be thousands of times as large.
const PATTERN: usize = 64 * 1024;
/// Characters of what is said about one, which repeats it.
const SAID: usize = 2_000;

/// Checks the length of a pattern.
///
/// # Errors
/// Returns an error for a pattern that is too long.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), ToolError> {
    if pattern.len() > PATTERN {
        Err(ToolError::new(
            ErrorKind::Pattern,
            format!("a pattern of more than {} KiB", PATTERN >> 10),
        ))
    } else {
        Ok(())
    }
}

pub(crate) fn pattern_error(error: &dyn std::error::Error) -> ToolError {
    let said: String = error.to_string().chars().take(SAID).collect();
    ToolError::new(ErrorKind::Pattern, said)
}

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

    /// Checks whether to go on.
    ///
    /// # Errors
    /// Returns an error if the walk was cancelled.
    pub(crate) fn check(&self) -> Result<(), ToolError> {
        if self.is_cancelled() { Err(ToolError::cancelled()) } else { Ok(()) }
    }
}

/// A walk, sorted by name unless asked otherwise, so that the same question has the same answer. Hidden files
/// are part of it, `.git` is not, links are not followed, and nothing of the user's own rules counts. What
/// cannot be read is skipped, as find(1) and ripgrep do.
pub(crate) struct Entries {
    walk: Walk,
    /// The file of rules that ends it.
    unreadable: Arc<Mutex<Option<PathBuf>>>,
    is_over: bool,
}

/// Walks through a directory; by the rules in its files, unless what these leave out is wanted.
pub(crate) fn walk(root: &Path, ignored: bool, globs: Override) -> Entries {
    entries(root, ignored, globs, |builder| {
        builder.sort_by_file_name(std::ffi::OsStr::cmp);
    })
}

/// Walks a directory by the rules in its files, in no order. Returns a directory before it reads it, so a caller
/// that watches each directory at once misses nothing. A sorted walk reads a directory before it returns it.
pub(crate) fn walk_unsorted(root: &Path) -> Entries {
    entries(root, false, Override::empty(), |_| {})
}

fn entries(
    root: &Path,
    ignored: bool,
    globs: Override,
    set_order: impl FnOnce(&mut WalkBuilder),
) -> Entries {
    // Those above count as well.
    let first = unreadable_above(root, ignored);
    let unreadable = Arc::new(Mutex::new(first));
    let of_filter = Arc::clone(&unreadable);
    let mut builder =
        builder(root, ignored, globs, move |_, rules| *of_filter.lock() = Some(rules));
    set_order(&mut builder);
    Entries { walk: builder.build(), unreadable, is_over: false }
}

/// Returns the same in so many threads, in no order. A directory whose rules cannot be read is not
/// entered, but reported with the file that holds them.
///
/// # Errors
/// Returns an error for rules above the directory that cannot be read.
pub(crate) fn walk_at_once(
    root: &Path,
    ignored: bool,
    globs: Override,
    threads: usize,
    report: impl Fn(&Path, PathBuf) + Send + Sync + 'static,
) -> Result<WalkParallel, ToolError> {
    match unreadable_above(root, ignored) {
        Some(rules) => Err(no_rules(&rules)),
        None => Ok(builder(root, ignored, globs, report).threads(threads).build_parallel()),
    }
}

fn unreadable_above(root: &Path, ignored: bool) -> Option<PathBuf> {
    (!ignored).then(|| root.ancestors().find_map(rules::unreadable)).flatten()
}

pub(crate) fn no_rules(rules: &Path) -> ToolError {
    let what = "holds no rules: not a regular file, or of more than 1 MiB; leave `.gitignore` \
        and its like out of account (ignored)";
    ToolError::about(ErrorKind::Special, what, &rules.into())
}

fn builder(
    root: &Path,
    ignored: bool,
    globs: Override,
    report: impl Fn(&Path, PathBuf) + Send + Sync + 'static,
) -> WalkBuilder {
    let enters = move |entry: &DirEntry| {
        if entry.depth() > 0 && entry.file_name() == GIT {
            return false;
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        if ignored || !is_directory || entry.depth() == 0 {
            return true;
        }
        match rules::unreadable(entry.path()) {
            Some(rules) => {
                report(entry.path(), rules);
                false
            }
            None => true,
        }
    };
    let mut builder = WalkBuilder::new(root);
    builder
        .hidden(false)
        .parents(!ignored)
        .ignore(!ignored)
        .git_ignore(!ignored)
        .git_exclude(!ignored)
        .git_global(false)
        .overrides(globs)
        .filter_entry(enters);
    if !ignored {
        builder.add_custom_ignore_filename(RIPGREP);
    }
    builder
}

/// Returns whether a walk would come to a directory, by the rules in those above it.
///
/// # Errors
/// Returns an error for rules that cannot be read.
pub(crate) fn comes_to(directory: &Path) -> Result<bool, ToolError> {
    let Some((above, name)) = directory.parent().zip(directory.file_name()) else {
        return Ok(true);
    };
    if name == GIT {
        return Ok(false);
    }
    if let Some(rules) = unreadable_above(above, false) {
        return Err(no_rules(&rules));
    }
    let name = name.to_owned();
    let mut builder = builder(above, false, Override::empty(), |_, _| {});
    builder
        .max_depth(Some(1))
        .filter_entry(move |entry| entry.depth() == 0 || entry.file_name() == name);
    Ok(builder.build().filter_map(Result::ok).any(|entry| entry.depth() == 1))
}

impl Iterator for Entries {
    type Item = Result<DirEntry, ToolError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let is_known = self.unreadable.lock().is_some();
        let entry = if is_known { None } else { self.walk.find_map(Result::ok) };
        if let Some(path) = self.unreadable.lock().take() {
            self.is_over = true;
            return Some(Err(no_rules(&path)));
        }
        entry.map(Ok)
    }
}

/// Globs as `--glob` of ripgrep has them.
///
/// # Errors
/// Returns an error for one that cannot be read.
pub(crate) fn globs(root: &Path, globs: &[String]) -> Result<Override, ToolError> {
    let pattern = |error: ignore::Error| pattern_error(&error);
    if globs.len() > GLOBS {
        return Err(ToolError::new(ErrorKind::Pattern, format!("more than {GLOBS} globs")));
    }
    let mut builder = OverrideBuilder::new(root);
    for glob in globs {
        check_pattern(glob)?;
        builder.add(glob).map_err(pattern)?;
    }
    builder.build().map_err(pattern)
}
