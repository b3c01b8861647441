//! Snapshots: what set-up commands made of a base, kept by the hash of what it was made from
//! (requirement 3.2).
//!
//! The hash is SHA-256 over `pinfold-snapshot-1` and, each ended by a NUL byte, the base's id, the
//! processor's name, the number of commands, the commands in order, and the hosts that they may
//! reach in addition to the registries, sorted. What is run at each start, sizes and variables are
//! not in it.

mod build;
pub(crate) mod by_name;
mod error;
pub mod step;

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use data_encoding::HEXLOWER;
use pinfold_host::Host;
use pinfold_policy::limits::{ByteSize, Limits};
use pinfold_policy::network::NetworkRule;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::HostPath;
use pinfold_policy::project::{Base, Snapshot};
use pinfold_policy::settings::Settings;
use pinfold_provision::{Lock, Pruned, Shelf};
use pinfold_rootfs::system::{Doing, Landing, Stack, System, Systems};
use serde::{Deserialize, Serialize};

pub use build::Building;
pub use error::SnapshotError;

use self::build::Work;

const SUMMARY: &str = "snapshot.json";
const TREE: &str = "tree";
const LOG: &str = "build.log";
const FORMAT: u32 = 1;
/// How many snapshots of a repository are kept: the current one, and one old (requirement 3.2).
pub const KEPT: usize = 2;
const BUILD_HOSTS: &str = include_str!("../data/build-hosts.txt");

/// A snapshot as `snapshot.json` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    format: u32,
    /// Its hash, in hexadecimal digits.
    pub id: String,
    /// The id of its base.
    pub base: String,
    /// The base as it was asked for.
    pub from: String,
    pub setup: Vec<String>,
    /// The hosts that they could reach in addition to the registries.
    pub hosts: Vec<String>,
    /// The repository that it was made for first.
    pub repository: String,
    /// When it was made (RFC 3339, UTC).
    pub made: String,
}

/// What is being done, for a user who waits.
#[derive(Debug)]
pub enum Event<'a> {
    /// The commands call Alpine's package manager, and no base is named.
    Alpine,
    /// The administrator's limit of the disk is below the size that was asked for.
    Smaller { asked: &'a Valued<ByteSize>, limit: &'a Valued<ByteSize> },
    /// Something about the base.
    Base(Doing),
    /// Something about the snapshot.
    Building(Building<'a>),
}

/// The user's snapshots.
pub struct Snapshots<'a> {
    host: Host<'a>,
    shelf: Shelf,
    /// Whether tags are looked up again.
    refresh: bool,
    report: &'a dyn Fn(Event<'_>),
}

/// Hosts that set-up commands may always reach.
///
/// # Errors
/// Returns no error: a test reads the list.
pub fn build_hosts() -> Result<Vec<Valued<NetworkRule>>, SnapshotError> {
    let lines = BUILD_HOSTS.lines().map(str::trim);
    let rules = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    rules
        .map(|line| {
            let rule = line.parse().map_err(|_| SnapshotError::BuildHost(line.to_owned()))?;
            Ok(Valued::new(rule, Origin::Default))
        })
        .collect()
}

impl<'a> Snapshots<'a> {
    /// Returns those in the user's cache; `report` is called before what takes time.
    #[must_use]
    pub fn new(host: Host<'a>, report: &'a dyn Fn(Event<'_>)) -> Self {
        let shelf = Shelf::new(host.places.cache.join("snapshots"), SUMMARY);
        Self { host, shelf, refresh: false, report }
    }

    /// Returns the same, but that the tag of an image is looked up again.
    #[must_use]
    pub fn refreshing(self, refresh: bool) -> Self {
        Self { refresh, ..self }
    }

    /// Returns the system that a session with these settings runs on, made now if need be; none for this
    /// machine's own. Paths are relative to `root`.
    ///
    /// # Errors
    /// Returns [`SnapshotError`]; what a failed attempt left is removed.
    pub fn ensure(&self, settings: &Settings, root: &Path) -> Result<Option<Stack>, SnapshotError> {
        let snapshot = &settings.snapshot;
        if snapshot.is_host() {
            return Ok(None);
        }
        let base = base_of(snapshot);
        if snapshot.base.is_none() && base == Base::Alpine {
            (self.report)(Event::Alpine);
        }
        let about_base = |doing| (self.report)(Event::Base(doing));
        let most = settings.limits.build.as_ref().map_or(Limits::DEFAULT_BUILD, |most| most.value);
        let written = crate::boundaries::written(settings, root);
        let systems = Systems::new(self.host, &about_base)
            .refreshing(self.refresh)
            .bounded(most)
            .not_from(written);
        let placed = placed(settings, &base, root)?;
        let system = systems.ensure(&placed, root)?;
        check_directory(settings, &base, &system)?;
        if let Some(asked) = &snapshot.size
            && let Some(limit) = disk_limit(settings).filter(|limit| limit.value < asked.value)
        {
            (self.report)(Event::Smaller { asked, limit });
        }
        let made = if snapshot.setup.is_empty() {
            None
        } else {
            Some(self.made(&base, &system, settings, root)?)
        };
        Ok(Some(stack(settings, system, made)))
    }

    /// Returns the same, if all of it is there already.
    ///
    /// # Errors
    /// Returns [`SnapshotError`].
    pub fn find(&self, settings: &Settings, root: &Path) -> Result<Option<Stack>, SnapshotError> {
        let snapshot = &settings.snapshot;
        let about_base = |doing| (self.report)(Event::Base(doing));
        let written = crate::boundaries::written(settings, root);
        let systems = Systems::new(self.host, &about_base).not_from(written);
        let base = base_of(snapshot);
        let placed = placed(settings, &base, root)?;
        let Some(system) = systems.find(&placed, root)? else { return Ok(None) };
        check_directory(settings, &base, &system)?;
        let made = if snapshot.setup.is_empty() {
            None
        } else {
            let id = hash(&system.id, snapshot);
            let Some(made) = self.shelf.hold(&id, usable(&id))? else { return Ok(None) };
            Some(made)
        };
        Ok(Some(stack(settings, system, made)))
    }

    /// Returns the tree of what the commands made of a base.
    fn made(
        &self,
        base: &Base,
        system: &System,
        settings: &Settings,
        root: &Path,
    ) -> Result<(PathBuf, Lock), SnapshotError> {
        let snapshot = &settings.snapshot;
        let id = hash(&system.id, snapshot);
        let setup: Vec<String> = snapshot.setup.iter().map(|one| one.value.clone()).collect();
        let summary = Summary {
            format: FORMAT,
            id: id.clone(),
            base: system.id.clone(),
            from: base.to_string(),
            setup,
            hosts: snapshot.hosts.iter().map(|rule| rule.value.to_string()).collect(),
            repository: root.display().to_string(),
            made: humantime::format_rfc3339_millis(std::time::SystemTime::now()).to_string(),
        };
        let mut is_new = false;
        let made = self.shelf.ensure::<_, SnapshotError>(
            &id,
            &|| (self.report)(Event::Building(Building::Waiting)),
            usable(&id),
            |staging| {
                is_new = true;
                let report = |building: Building<'_>| (self.report)(Event::Building(building));
                let work = Work { system, summary: &summary, settings, staging, report: &report };
                work.run().map_err(|error| self.with_place(error, staging))?;
                let summary = serde_json::to_vec_pretty(&summary);
                Ok(summary.map_err(|error| self.shelf.failed("describe", staging, error.into()))?)
            },
        )?;
        if is_new {
            self.prune(KEPT, |one| one.repository == summary.repository)?;
        }
        Ok(made)
    }

    /// Adds the place to an error, so that a full disk is reported as such.
    fn with_place(&self, error: SnapshotError, staging: &Path) -> SnapshotError {
        match error {
            SnapshotError::System(error) => self.shelf.failed("build in", staging, error).into(),
            other => other,
        }
    }

    /// Removes what killed builds left, and the snapshots that are not among the newest `keep` of
    /// their repository. What a session uses stays.
    ///
    /// # Errors
    /// Returns the error of removing.
    pub fn prune(
        &self,
        keep: usize,
        among: impl Fn(&Summary) -> bool,
    ) -> Result<Pruned, SnapshotError> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let mut old = HashSet::new();
        for one in self.all()?.into_iter().filter(among) {
            let count = seen.entry(one.repository).or_default();
            *count += 1;
            if *count > keep {
                old.insert(one.id);
            }
        }
        Ok(self.shelf.prune(|id| old.contains(id))?)
    }

    /// Removes bases that no snapshot needs and no session uses.
    ///
    /// # Errors
    /// Returns the error of removing.
    pub fn prune_bases(&self) -> Result<Pruned, SnapshotError> {
        let needed: HashSet<String> = self.all()?.into_iter().map(|one| one.base).collect();
        let systems = Systems::new(self.host, &|_| {});
        systems.clean();
        let mut pruned = Pruned::default();
        for one in systems.all()?.into_iter().filter(|one| !needed.contains(&one.id)) {
            if systems.remove(&one.id)? {
                pruned.removed.push(one.id);
            } else {
                pruned.in_use.push(one.id);
            }
        }
        Ok(pruned)
    }

    /// Returns every snapshot that is there, the newest first.
    ///
    /// # Errors
    /// Returns an error for a cache that cannot be read.
    pub fn all(&self) -> Result<Vec<Summary>, SnapshotError> {
        let summary = |id: String| {
            let (_, bytes) = self.shelf.find(&id)?;
            serde_json::from_slice::<Summary>(&bytes).ok().filter(|summary| summary.id == id)
        };
        let mut all: Vec<Summary> = self.shelf.ids()?.into_iter().filter_map(summary).collect();
        all.sort_by(|one, other| other.made.cmp(&one.made));
        Ok(all)
    }

    /// Returns the directories of the snapshots and of their bases.
    #[must_use]
    pub fn shelves(&self) -> [Shelf; 2] {
        [self.shelf.clone(), Systems::new(self.host, &|_| {}).shelf().clone()]
    }

    /// Returns where the log of a snapshot's commands lies.
    #[must_use]
    pub fn log(&self, id: &str) -> PathBuf {
        self.shelf.dir().join(id).join(LOG)
    }
}

/// Returns the base to make. The path of a tarball is without links, and lies where the administrator allows grants: that is
/// checked before anything of it is in the user's cache. One that is not there is named when it is read.
///
/// # Errors
/// Returns the refusal.
fn placed(settings: &Settings, base: &Base, root: &Path) -> Result<Base, SnapshotError> {
    let Base::Tarball(path) = base else { return Ok(base.clone()) };
    let path = root.join(path);
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    check_place(settings, &path)?;
    Ok(Base::Tarball(path))
}

/// Checks a directory that a system begins with, of which nothing is copied.
///
/// # Errors
/// Returns the refusal.
fn check_directory(settings: &Settings, base: &Base, system: &System) -> Result<(), SnapshotError> {
    match base {
        Base::Directory(_) => check_place(settings, &system.tree),
        _ => Ok(()),
    }
}

/// Checks that a base lies where the administrator allows grants.
///
/// # Errors
/// Returns the refusal.
fn check_place(settings: &Settings, path: &Path) -> Result<(), SnapshotError> {
    let place = HostPath::new(path);
    let place = place.map_err(|error| std::io::Error::other(error.to_string()))?;
    let origin =
        settings.snapshot.base.as_ref().map_or(Origin::Default, |base| base.origin.clone());
    Ok(settings.ceiling.check_path("snapshot.base", &place, &origin)?)
}

/// Returns the administrator's limit of the disk, which is for all that a session writes.
fn disk_limit(settings: &Settings) -> Option<&Valued<ByteSize>> {
    settings.limits.disk.as_ref().filter(|disk| matches!(disk.origin, Origin::Ceiling(_)))
}

fn stack(settings: &Settings, system: System, made: Option<(PathBuf, Lock)>) -> Stack {
    let snapshot = &settings.snapshot;
    let size = snapshot.size.as_ref().map_or(Snapshot::DEFAULT_SIZE, |size| size.value);
    let size = disk_limit(settings).map_or(size, |disk| size.min(disk.value));
    let over_host = system.over_host;
    let (mut trees, mut held) = (vec![system.tree], Vec::from_iter(system.held));
    if let Some((tree, lock)) = made {
        trees.insert(0, tree);
        held.push(Arc::new(lock));
    }
    let (landing, is_root) = (Landing::Memory(size), snapshot.is_root());
    Stack { trees, over_host, landing, is_root, held: Arc::new(held) }
}

/// Returns whether a directory holds the snapshot of this hash, and its tree.
fn usable(id: &str) -> impl Fn(&Path, &[u8]) -> Option<PathBuf> {
    let id = id.to_owned();
    move |home, bytes| {
        let found: Summary = serde_json::from_slice(bytes).ok()?;
        let fits = found.format == FORMAT && found.id == id;
        // No link may be on the way to a tree, and the cache may lie behind one.
        std::fs::canonicalize(home.join(TREE)).ok().filter(|tree| fits && tree.is_dir())
    }
}

/// Returns the base that a snapshot begins with: what it names, Alpine for commands that call its
/// package manager (MoltNet's is Alpine), else this machine's system.
#[must_use]
pub fn base_of(snapshot: &Snapshot) -> Base {
    if let Some(base) = &snapshot.base {
        return base.value.clone();
    }
    let between = |c: char| c.is_whitespace() || ";|&()".contains(c);
    let calls_apk = |command: &str| command.split(between).any(|word| word == "apk");
    if snapshot.setup.iter().any(|command| calls_apk(&command.value)) {
        Base::Alpine
    } else {
        Base::Host
    }
}

fn hash(base: &str, snapshot: &Snapshot) -> String {
    use ring::digest::{Context, SHA256};
    let mut hosts: Vec<String> = snapshot.hosts.iter().map(|rule| rule.value.to_string()).collect();
    hosts.sort();
    let setup: Vec<&str> = snapshot.setup.iter().map(|command| command.value.as_str()).collect();
    let mut context = Context::new(&SHA256);
    context.update(b"pinfold-snapshot-1");
    let count = setup.len().to_string();
    let parts = [base, std::env::consts::ARCH, &count].into_iter().chain(setup);
    for part in parts.chain(hosts.iter().map(String::as_str)) {
        context.update(part.as_bytes());
        context.update(b"\0");
    }
    HEXLOWER.encode(context.finish().as_ref())
}

#[cfg(test)]
mod tests;
