//! What pinfold keeps on disk: how large it is, and removing it.
//!
//! A [`Kind`] is either made again when it is needed, or is lost for good and has to be named. Nothing that a live
//! session uses is removed. Settings, secrets, trust, spending and the audit log are no kind: see
//! `docs/guides/uninstall.md`.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::io::AtPath as _;
use pinfold_host::sessions::{is_live, live_sessions, while_none_runs};
use pinfold_protect::set_aside;
use pinfold_provision::{Cache, Registry, Shelf};
use pinfold_session::detach;
use pinfold_session::snapshot::Snapshots;
use pinfold_snapshot::disk;
use pinfold_trees::{empty_directory, remove_tree};
use pinfold_workspace::review::{self, Review, Selection};

/// One kind of files that can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Unpacked agents.
    Agents,
    /// Snapshots and the bases that they were built on.
    Systems,
    /// Lists of what is in workspaces, which make starts faster.
    Scans,
    /// Output of detached sessions that have ended.
    Logs,
    /// Changes in views that nobody has applied or discarded.
    Views,
    /// Files that were set aside because programs on the host would run them.
    SetAside,
    /// What agents keep between sessions, such as their history.
    AgentState,
}

impl Kind {
    /// Every kind, the harmless ones first.
    pub const ALL: [Self; 7] = [
        Self::Agents,
        Self::Systems,
        Self::Scans,
        Self::Logs,
        Self::Views,
        Self::SetAside,
        Self::AgentState,
    ];

    /// Returns the name by which the command line knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::Systems => "systems",
            Self::Scans => "scans",
            Self::Logs => "logs",
            Self::Views => "views",
            Self::SetAside => "set-aside",
            Self::AgentState => "agent-state",
        }
    }

    /// Returns what it is, and what removing it means.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Agents => "unpacked agents; downloaded again when one is run",
            Self::Systems => "snapshots and their bases; built again when they are needed",
            Self::Scans => "lists of files in workspaces; written again by the next run",
            Self::Logs => "output of detached sessions that have ended",
            Self::Views => "changes that wait for `pinfold apply` or `pinfold discard`",
            Self::SetAside => "files that wait for `pinfold adopt`",
            Self::AgentState => "what agents keep between sessions",
        }
    }

    /// Whether it has to be named before it is removed, because it cannot be made again.
    #[must_use]
    pub fn must_be_named(self) -> bool {
        matches!(self, Self::Views | Self::SetAside | Self::AgentState)
    }
}

/// How large a kind is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// The kind.
    pub kind: Kind,
    /// All of it, in bytes of the disk.
    pub bytes: u64,
    /// The part that no live session uses, in bytes of the disk.
    pub removable: u64,
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

fn measure_one(host: Host<'_>, kind: Kind) -> io::Result<Usage> {
    let places = host.places;
    let live = live_sessions(places);
    let is_live = |name: &str| live.contains(name);
    let (bytes, removable) = match kind {
        Kind::Agents => shelf_size(agents(places).shelf())?,
        Kind::Systems => {
            let [first, second] = Snapshots::new(host, &|_| {}).shelves();
            let (first, second) = (shelf_size(&first)?, shelf_size(&second)?);
            (first.0 + second.0, first.1 + second.1)
        }
        Kind::Scans => size(&scans(places), &|_| false)?,
        Kind::Logs => size(&detach::logs(places), &is_live)?,
        Kind::Views => size(&review::reviews(places), &is_live)?,
        Kind::SetAside => size(&set_aside::directory(places), &is_live)?,
        Kind::AgentState => size(&agent_state(places), &|_| !live.is_empty())?,
    };
    Ok(Usage { kind, bytes, removable })
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
        Kind::Logs => detach::remove_old_logs(places, 0),
        Kind::Views => remove_views(host)?,
        Kind::SetAside => set_aside::remove_all(places, &|session| is_live(places, session))?,
        Kind::AgentState => {
            let removed = while_none_runs(places, || remove_tree(&agent_state(places)))?;
            removed.ok_or("a session runs, which may use it")?;
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

/// Returns the bytes of a shelf, and those that no process holds.
fn shelf_size(shelf: &Shelf) -> io::Result<(u64, u64)> {
    let mut held = HashSet::new();
    for id in shelf.ids().map_err(io::Error::other)? {
        if shelf.is_held(&id).map_err(io::Error::other)? {
            held.insert(id);
        }
    }
    // Next to a directory lies its lock, and where it is made.
    size(shelf.dir(), &|name| held.contains(name.split('.').next().unwrap_or(name)))
}

/// Returns the bytes of what is in a directory, and those of the entries that are not in use. A missing directory
/// has none.
///
/// # Errors
/// Returns the error of reading the directory.
fn size(directory: &Path, is_in_use: &dyn Fn(&str) -> bool) -> io::Result<(u64, u64)> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((0, 0)),
        entries => entries.at("read", directory)?,
    };
    let (mut bytes, mut removable) = (0, 0);
    for entry in entries {
        let entry = entry.at("read", directory)?;
        // One that goes at this moment holds nothing.
        let held = disk::occupied(&entry.path()).unwrap_or(0);
        bytes += held;
        if !entry.file_name().to_str().is_some_and(is_in_use) {
            removable += held;
        }
    }
    Ok((bytes, removable))
}

#[cfg(test)]
mod tests;
