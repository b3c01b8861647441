//! What pinfold keeps on disk: how large it is, and removing it.
//!
//! A [`Kind`] is either made again when it is needed, or is lost for good and has to be named. Nothing that a live
//! session uses is removed. Settings, secrets, trust, spending and the audit log are no kind: see
//! `docs/guides/uninstall.md`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_host::sessions::{is_live, live_sessions, while_none_runs};
use pinfold_protect::set_aside;
use pinfold_provision::{Cache, Registry, Shelf};
use pinfold_session::detach;
use pinfold_session::made_for_machines;
use pinfold_session::snapshot::Snapshots;
use pinfold_session::workspace_state;
use pinfold_snapshot::disk;
use pinfold_trees::{empty_directory, remove_tree};
use pinfold_workspace::git::kept::KeptCopy;
use pinfold_workspace::review::{self, Review, Selection};

/// Why nothing that a session might use is removed.
const IN_USE: &str = "a session runs, which may use it";

/// One kind of files that can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Unpacked agents.
    Agents,
    /// Snapshots and the bases that they were built on.
    Systems,
    /// Lists of what is in workspaces, which make starts faster.
    Scans,
    /// What machines boot, and machines that were booted once.
    Machines,
    /// Output of detached sessions that have ended.
    Logs,
    /// Changes in views that nobody has applied or discarded.
    Views,
    /// Files that were set aside because programs on the host would run them.
    SetAside,
    /// What agents keep between sessions, such as their history.
    AgentState,
    /// The part of it for workspaces that are gone.
    GoneState,
    /// Git directories of sessions, of which not everything could be taken over.
    KeptGit,
}

impl Kind {
    /// Every kind, the harmless ones first.
    pub const ALL: [Self; 10] = [
        Self::Agents,
        Self::Systems,
        Self::Scans,
        Self::Machines,
        Self::Logs,
        Self::Views,
        Self::SetAside,
        Self::AgentState,
        Self::GoneState,
        Self::KeptGit,
    ];

    /// Returns the name by which the command line knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Systems => "systems",
            Self::Scans => "scans",
            Self::Machines => "machines",
            Self::Logs => "logs",
            Self::Views => "views",
            Self::SetAside => "set-aside",
            Self::AgentState => "agent-state",
            Self::GoneState => "gone-state",
            Self::KeptGit => "kept-git",
        }
    }

    /// Returns what it is, and what removing it means.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Agents => "unpacked agents; downloaded again when one is run",
            Self::Systems => "snapshots and their bases; built again when they are needed",
            Self::Scans => "lists of files in workspaces; written again by the next run",
            Self::Machines => "kernels and templates of machines; made again by the next one",
            Self::Logs => "output of detached sessions that have ended",
            Self::Views => "changes that wait for `pinfold apply` or `pinfold discard`",
            Self::SetAside => "files that wait for `pinfold adopt`",
            Self::AgentState => "what agents keep between sessions",
            Self::GoneState => "the part of agent-state for workspaces that are gone",
            Self::KeptGit => "git directories of sessions whose work could not be taken over",
        }
    }

    /// Returns whether it has to be named before it is removed, because it cannot be made again.
    #[must_use]
    pub fn must_be_named(self) -> bool {
        match self {
            Self::Agents | Self::Systems | Self::Scans | Self::Machines | Self::Logs => false,
            Self::Views | Self::SetAside | Self::AgentState | Self::GoneState | Self::KeptGit => {
                true
            }
        }
    }

    /// Returns the kind that contains this one.
    #[must_use]
    pub fn part_of(self) -> Option<Self> {
        (self == Self::GoneState).then_some(Self::AgentState)
    }
}

/// How large a kind is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub kind: Kind,
    /// All of it, in bytes of the disk.
    pub bytes: u64,
    /// The part that no live session uses, in bytes of the disk.
    pub removable: u64,
    /// When its oldest entry last changed.
    pub oldest: Option<SystemTime>,
}

/// One thing of a kind that is shown one by one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredEntry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is of: a workspace that is gone.
    pub of: Option<PathBuf>,
    /// How large it is, in bytes of the disk.
    pub bytes: u64,
    /// When it last changed.
    pub changed: SystemTime,
    /// Whether no live session uses it.
    pub is_removable: bool,
}

/// Returns how large each kind is. What the user may not enter is not counted.
///
/// # Errors
/// Returns the error of a directory that cannot be read or a lock that cannot be tried.
pub fn measure(host: Host<'_>) -> io::Result<Vec<Usage>> {
    Kind::ALL.into_iter().map(|kind| measure_one(host, kind)).collect()
}

/// Returns the bytes of the disk that all files of pinfold hold, those of no kind included.
#[must_use]
pub fn measure_all(places: &Places) -> u64 {
    let places = [&places.config, &places.state, &places.cache];
    places.into_iter().map(|place| disk::occupied(place).unwrap_or(0)).sum()
}

/// Returns the entries of a kind whose entries nobody knows by another command; of other kinds none.
///
/// # Errors
/// Returns the error of a directory that cannot be read.
pub fn entries(host: Host<'_>, kind: Kind) -> io::Result<Vec<StoredEntry>> {
    let live = live_sessions(host.places);
    match kind {
        Kind::GoneState => {
            let gone = workspace_state::gone(host.places)?.into_iter();
            Ok(gone
                .filter_map(|gone| entry(gone.state, Some(gone.workspace), live.is_empty()))
                .collect())
        }
        Kind::KeptGit => {
            let is_live = |copy: &KeptCopy| live.iter().any(|id| id == copy.session.as_str());
            let kept = KeptCopy::all(host.places)?.into_iter();
            Ok(kept
                .filter_map(|copy| {
                    let is_removable = !is_live(&copy);
                    entry(copy.path, None, is_removable)
                })
                .collect())
        }
        Kind::Agents
        | Kind::Systems
        | Kind::Scans
        | Kind::Machines
        | Kind::Logs
        | Kind::Views
        | Kind::SetAside
        | Kind::AgentState => Ok(Vec::new()),
    }
}

/// Returns one that is removed at this moment does not count.
fn entry(path: PathBuf, of: Option<PathBuf>, is_removable: bool) -> Option<StoredEntry> {
    let (bytes, changed) = (disk::occupied(&path).ok()?, changed(&path)?);
    Some(StoredEntry { path, of, bytes, changed, is_removable })
}

/// Returns when a file or the directory itself last changed. A sandbox that may write to it can set its
/// other times.
fn changed(path: &Path) -> Option<SystemTime> {
    let seconds = fs::symlink_metadata(path).ok()?.ctime();
    Some(UNIX_EPOCH + Duration::from_secs(seconds.try_into().ok()?))
}

fn measure_one(host: Host<'_>, kind: Kind) -> io::Result<Usage> {
    let places = host.places;
    let live = live_sessions(places);
    let is_live = |name: &str| live.contains(name);
    let size = match kind {
        Kind::Agents => shelf_size(agents(places).shelf())?,
        Kind::Systems => {
            let [first, second] = Snapshots::new(host, &|_| {}).shelves();
            shelf_size(&first)?.and(shelf_size(&second)?)
        }
        Kind::Scans => size(&scans(places), &|_| false)?,
        // A machine that runs keeps its files.
        Kind::Machines => {
            made_for_machines(places).iter().try_fold(Size::default(), |sum, directory| {
                Ok::<_, io::Error>(sum.and(size(directory, &|_| false)?))
            })?
        }
        Kind::Logs => size(&detach::logs(places), &is_live)?,
        Kind::Views => size(&review::reviews(places), &is_live)?,
        Kind::SetAside => size(&set_aside::directory(places), &is_live)?,
        Kind::AgentState => size(&agent_state(places), &|_| !live.is_empty())?,
        Kind::GoneState | Kind::KeptGit => {
            let entries = entries(host, kind)?;
            let sum = |removable: bool| {
                let counted = entries.iter().filter(|entry| entry.is_removable || !removable);
                counted.map(|entry| entry.bytes).sum()
            };
            let oldest = entries.iter().map(|entry| entry.changed).min();
            Size { bytes: sum(false), removable: sum(true), oldest }
        }
    };
    let Size { bytes, removable, oldest } = size;
    Ok(Usage { kind, bytes, removable, oldest })
}

/// Removes what no live session uses of a kind.
///
/// # Errors
/// Returns the first thing that cannot be removed, with the reason; what comes before it is gone.
pub fn remove(host: Host<'_>, kind: Kind) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let places = host.places;
    match kind {
        Kind::Agents => drop(agents(places).prune()?),
        Kind::Systems => {
            let snapshots = Snapshots::new(host, &|_| {});
            snapshots.prune(0, |_| true)?;
            snapshots.prune_bases()?;
        }
        Kind::Scans => empty_directory(&scans(places))?,
        Kind::Machines => {
            made_for_machines(places)
                .iter()
                .try_for_each(|directory| empty_directory(directory))?;
        }
        Kind::Logs => detach::remove_old_logs(places, 0),
        Kind::Views => remove_views(host)?,
        Kind::SetAside => set_aside::remove_all(places, &|session| is_live(places, session))?,
        Kind::AgentState => {
            let removed = while_none_runs(places, || remove_tree(&agent_state(places)))?;
            removed.ok_or(IN_USE)?;
        }
        Kind::GoneState => {
            let remove_all = || {
                let gone = workspace_state::gone(places)?;
                gone.iter().try_for_each(|gone| remove_tree(&gone.state))
            };
            while_none_runs(places, remove_all)?.ok_or(IN_USE)?;
        }
        Kind::KeptGit => {
            for copy in KeptCopy::all(places)? {
                if !is_live(places, copy.session.as_str()) {
                    copy.remove()?;
                }
            }
        }
    }
    Ok(())
}

fn remove_views(host: Host<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let places = host.places;
    for summary in Review::sessions(places)?.into_iter().filter(|summary| !summary.is_live) {
        let review = Review::open(host, &summary.session)?;
        // A workspace that is gone keeps nobody from discarding what was changed in it.
        let changes = review.changes().unwrap_or_default();
        review.record(places, "discard", &changes, &Selection::default())?;
        review.discard()?;
    }
    Ok(())
}

fn agents(places: &Places) -> Cache {
    Cache::new(places.cache.join("agents"), Registry::default())
}

fn scans(places: &Places) -> PathBuf {
    places.cache.join("directories")
}

fn agent_state(places: &Places) -> PathBuf {
    places.state.join("agents")
}

/// Returns the size of a shelf. What a process holds is in use.
fn shelf_size(shelf: &Shelf) -> io::Result<Size> {
    let mut held = HashSet::new();
    for id in shelf.ids().map_err(io::Error::other)? {
        if shelf.is_held(&id).map_err(io::Error::other)? {
            held.insert(id);
        }
    }
    // Next to a directory lies its lock, and where it is made.
    size(shelf.dir(), &|name| held.contains(name.split('.').next().unwrap_or(name)))
}

/// What is in a directory.
#[derive(Default)]
struct Size {
    bytes: u64,
    /// The bytes of the entries that are not in use.
    removable: u64,
    oldest: Option<SystemTime>,
}

impl Size {
    fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            removable: self.removable + other.removable,
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

/// Returns the size of what is in a directory. A missing directory has none.
///
/// # Errors
/// Returns the error of reading the directory.
fn size(directory: &Path, is_in_use: &dyn Fn(&str) -> bool) -> io::Result<Size> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Size::default()),
        entries => entries.at("read", directory)?,
    };
    let mut size = Size::default();
    for entry in entries {
        let entry = entry.at("read", directory)?;
        // One that goes at this moment holds nothing.
        let held = disk::occupied(&entry.path()).unwrap_or(0);
        size.bytes += held;
        if !entry.file_name().to_str().is_some_and(is_in_use) {
            size.removable += held;
        }
        size.oldest = size.oldest.into_iter().chain(changed(&entry.path())).min();
    }
    Ok(size)
}

#[cfg(test)]
mod tests;
