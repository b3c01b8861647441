//! `pinfold hide`: moves a secret out of the workspace into pinfold's state, which no session is
//! granted, and leaves a link.
//!
//! A mask on a name of a live directory falls off when the host saves the file. Behind a link there
//! is nothing in the workspace to uncover: an editor that saves through the link changes a file that
//! the sandbox cannot reach.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_host::beneath::open_directory;
use pinfold_host::directories::Places;
use pinfold_host::sessions;
use pinfold_policy::path::Escaped;
use pinfold_protect::own::Own;
use pinfold_protect::tracked::Tracked;
use pinfold_workspace::guard::session_with;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use thiserror::Error;

mod copy;
mod entry;

pub use entry::Condition;
use entry::Entry;

/// Why a file was not moved. It is where it was.
#[derive(Debug, Error)]
#[error("{what}")]
pub struct HideError {
    what: String,
    hint: Option<String>,
}

impl HideError {
    fn new(what: String, hint: &str) -> Self {
        Self { what, hint: Some(hint.to_owned()).filter(|hint| !hint.is_empty()) }
    }

    fn of(path: &Path, error: impl std::fmt::Display) -> Self {
        Self::new(format!("{}: {error}", Escaped(path)), "")
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        self.hint.clone()
    }
}

/// Whether a file that git tracks is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tracking {
    /// It is refused.
    Refuse,
    /// It is moved.
    Allow,
}

/// A file that was moved out of a workspace.
#[derive(Debug)]
pub struct Hidden {
    /// Where its link is, or was.
    pub path: PathBuf,
    /// Where it lies now.
    pub content: PathBuf,
    /// When it was moved.
    pub when: SystemTime,
    /// What lies at its path.
    pub condition: Condition,
}

/// A name in a directory that is held open.
struct Name {
    parent: OwnedFd,
    name: PathBuf,
    path: PathBuf,
}

impl Name {
    /// Opens the directory that a path lies in. No link leads there.
    fn open(path: &Path) -> Result<Self, HideError> {
        let whole = std::path::absolute(path).map_err(|error| HideError::of(path, error))?;
        let (Some(above), Some(name)) = (whole.parent(), whole.file_name()) else {
            return Err(HideError::of(path, "it has no name"));
        };
        let parent = open_directory(above).map_err(|errno| match errno {
            Errno::LOOP => HideError::new(
                format!("{} is reached through a symbolic link", Escaped(path)),
                "name it by its real path (realpath)",
            ),
            errno => HideError::of(path, errno),
        })?;
        let above = fs::read_link(format!("/proc/self/fd/{}", parent.as_raw_fd()))
            .map_err(|error| HideError::of(path, error))?;
        let path = above.join(name);
        Ok(Self { parent, name: name.into(), path })
    }

    /// Returns what lies there; a link is a link.
    fn stat(&self) -> Result<Stat, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::fstat(rustix::fs::openat(&self.parent, &self.name, flags, Mode::empty())?)
    }

    fn error(&self, error: impl std::fmt::Display) -> HideError {
        HideError::of(&self.path, error)
    }
}

/// Moves a file out of its workspace and leaves a link. Returns where it lies now.
///
/// # Errors
/// Returns that it is no file of the user's own with one name, that git or a session uses it, or
/// the error of a call.
pub fn hide(places: &Places, path: &Path, tracking: Tracking) -> Result<Hidden, HideError> {
    let name = Name::open(path)?;
    let _lock = lock(places).map_err(|error| name.error(error))?;
    let known = tidy(places);
    let stat = name.stat().map_err(|errno| name.error(errno))?;
    check(&name, &stat, &known, places)?;
    if tracking == Tracking::Refuse && is_tracked(&name.path) {
        let what = format!("git tracks {}: its content is in the repository", Escaped(&name.path));
        let hint = "change the secret and take it out of git (git rm --cached), or say --force: git \
                    then sees a link in its place";
        return Err(HideError::new(what, hint));
    }
    let entry = Entry::create(places, &name.path).map_err(|error| name.error(error))?;
    entry.take(&name.parent, &name.name, &stat).map_err(|error| {
        entry.tidy();
        name.error(error)
    })?;
    let mut older = known.iter().filter(|known| known.path() == name.path);
    older.try_for_each(Entry::outdate).map_err(|error| name.error(error))?;
    Ok(entry.describe())
}

/// Puts a file back in the place of its link.
///
/// # Errors
/// Returns that nothing of this path is hidden, that something else lies there, that a session uses
/// it, or the error of a call.
pub fn undo(places: &Places, path: &Path) -> Result<PathBuf, HideError> {
    let name = Name::open(path)?;
    let _lock = lock(places).map_err(|error| name.error(error))?;
    let mut known = tidy(places);
    known.retain(|entry| entry.path() == name.path);
    known.retain(|entry| entry.describe().condition != Condition::Older);
    let Some(entry) = known.into_iter().max_by_key(|entry| entry.describe().when) else {
        let what = format!("{} is not hidden", Escaped(&name.path));
        return Err(HideError::new(what, "`pinfold hide` lists what is"));
    };
    refuse_in_use(&name, places)?;
    if entry.describe().condition == Condition::Replaced {
        let content = entry.content();
        let what = format!(
            "{} is another file now; the hidden one is {}",
            Escaped(&name.path),
            Escaped(&content)
        );
        return Err(HideError::new(what, "move one of them away"));
    }
    entry.give_back(&name.parent, &name.name).map_err(|error| name.error(error))?;
    Ok(name.path)
}

/// Lists what is hidden, the newest first.
///
/// # Errors
/// Returns the error of locking the directory of hidden files.
pub fn list(places: &Places) -> io::Result<Vec<Hidden>> {
    let _lock = lock(places)?;
    let mut all: Vec<Hidden> = tidy(places).iter().map(Entry::describe).collect();
    all.sort_by(|one, other| (other.when, &one.path).cmp(&(one.when, &other.path)));
    Ok(all)
}

/// Keeps other processes from moving files at the same time.
fn lock(places: &Places) -> io::Result<fs::File> {
    let store = entry::store(places);
    Places::make_private(&store)?;
    sessions::lock(&store.join("lock"), FlockOperation::LockExclusive)
}

/// Settles what interrupted moves left, and returns what is hidden.
fn tidy(places: &Places) -> Vec<Entry> {
    let mut known = entries(places);
    known.retain(Entry::tidy);
    known
}

/// Names files in a directory whose links were replaced, which an editor does that saves by
/// renaming.
pub fn replaced(places: &Places, root: &Path) -> Vec<PathBuf> {
    let all = entries(places)
        .into_iter()
        .filter(|entry| entry.path().starts_with(root))
        .map(|entry| entry.describe());
    let mut paths: Vec<PathBuf> =
        all.filter(|it| it.condition == Condition::Replaced).map(|it| it.path).collect();
    paths.sort();
    paths.dedup();
    paths
}

fn entries(places: &Places) -> Vec<Entry> {
    let found = fs::read_dir(entry::store(places)).into_iter().flatten().flatten();
    found.filter_map(|found| Entry::read(found.path())).collect()
}

fn check(name: &Name, stat: &Stat, known: &[Entry], places: &Places) -> Result<(), HideError> {
    let shown = Escaped(&name.path);
    let refuse = |why: &str, hint: &str| Err(HideError::new(format!("{shown} {why}"), hint));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return refuse("is a directory", "hide the files in it"),
        FileType::Symlink => {
            let is_hidden = known
                .iter()
                .map(Entry::describe)
                .any(|hidden| hidden.path == name.path && hidden.condition == Condition::Hidden);
            return if is_hidden {
                refuse("is hidden already", "")
            } else {
                refuse("is a symbolic link", "hide the file that it leads to")
            };
        }
        _ => return refuse("is not a regular file", ""),
    }
    if stat.st_nlink > 1 {
        let hint = "remove its other names (find . -samefile shows them), or hide a copy";
        return refuse("has several names (hard links)", hint);
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user", "only its owner can hide it");
    }
    if name.path.ancestors().skip(1).any(is_git_directory) {
        return refuse("is in a git directory", "sessions do not see its settings anyway");
    }
    let own = Own::find(places).map_err(|error| name.error(error))?;
    if own.holding(&name.path).is_some() {
        return refuse("belongs to pinfold", "no session sees it anyway");
    }
    refuse_in_use(name, places)
}

/// Refuses a name that a live session masks: a rename over it takes the mask off.
fn refuse_in_use(name: &Name, places: &Places) -> Result<(), HideError> {
    let Some(session) = session_with(places, &name.path) else { return Ok(()) };
    let what = format!("the live session {session} uses the directory of {}", Escaped(&name.path));
    Err(HideError::new(what, &format!("end it first (pinfold stop {session})")))
}

fn is_git_directory(path: &Path) -> bool {
    let is_named = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    let has = |name: &str| fs::symlink_metadata(path.join(name)).is_ok();
    is_named || (has("HEAD") && (has("commondir") || has("objects") && has("refs")))
}

fn is_tracked(path: &Path) -> bool {
    let file = path.to_owned();
    let tracked = Tracked::look_up([&file].into_iter(), &[PathBuf::from("/")], |_| true);
    tracked.same.contains(path) || tracked.other.contains(path)
}

/// Writes a directory's entries to the disk.
fn sync(directory: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(opened)?)
}

#[cfg(test)]
mod tests;
