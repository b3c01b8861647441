//! Snapshots: what set-up commands made of a base, kept by the hash of what it was made from
//! (requirement 3.2).
//!
//! The hash is SHA-256 over `pinfold-snapshot-1` and, each ended by a NUL byte, the base's id, the
//! processor's name, the number of commands, the commands in order, and the hosts that they may
//! reach beside the registries, sorted. What is run at each start, sizes and variables are not in
//! it.

mod build;
mod error;
pub mod step;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_policy::network::NetworkRule;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::project::{Base, Snapshot};
use pinfold_policy::settings::Settings;
use pinfold_provision::{Lock, Shelf};
use serde::{Deserialize, Serialize};

pub use build::Building;
pub use error::SnapshotError;

use self::build::Work;
use crate::places::Places;
use crate::system::{Doing, Landing, Stack, System, Systems};

const SUMMARY: &str = "snapshot.json";
pub(crate) const TREE: &str = "tree";
const LOG: &str = "build.log";
const FORMAT: u32 = 1;
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
    /// The commands.
    pub setup: Vec<String>,
    /// The hosts that they could reach beside the registries.
    pub hosts: Vec<String>,
    /// The repository that it was made for first.
    pub repository: String,
    /// When it was made (RFC 3339, UTC).
    pub made: String,
}

/// What is being done, for a person who waits.
#[derive(Debug)]
pub enum Event<'a> {
    /// Something about the base.
    Base(Doing),
    /// Something about the snapshot.
    Building(Building<'a>),
}

/// The user's snapshots.
pub struct Snapshots<'a> {
    places: &'a Places,
    shelf: Shelf,
    tell: &'a dyn Fn(Event<'_>),
}

/// Hosts that set-up commands may always reach.
///
/// # Errors
/// Never: a test reads the list.
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
    /// Those in the user's cache; `tell` is told what takes time.
    #[must_use]
    pub fn new(places: &'a Places, tell: &'a dyn Fn(Event<'_>)) -> Self {
        Self { places, shelf: Shelf::new(places.cache.join("snapshots"), SUMMARY), tell }
    }

    /// The system that a session with these settings runs on, made now if need be; none for this
    /// machine's own. Paths are relative to `root`.
    ///
    /// # Errors
    /// See [`SnapshotError`]; what a failed attempt left is removed.
    pub fn ensure(&self, settings: &Settings, root: &Path) -> Result<Option<Stack>, SnapshotError> {
        let snapshot = &settings.snapshot;
        if snapshot.is_host() {
            return Ok(None);
        }
        let base = base_of(snapshot);
        let about_base = |doing| (self.tell)(Event::Base(doing));
        let systems = Systems::new(self.places, &about_base);
        let system = systems.ensure(&base, root)?;
        let size = snapshot.size.as_ref().map_or(Snapshot::DEFAULT_SIZE, |size| size.value);
        let (mut trees, mut held) = (vec![system.tree.clone()], Vec::new());
        if !snapshot.setup.is_empty() {
            let (tree, lock) = self.made(snapshot, (&base, &system), settings, root)?;
            trees.insert(0, tree);
            held.push(lock);
        }
        held.extend(system.held);
        let (landing, held) = (Landing::Memory(size), Arc::new(held));
        Ok(Some(Stack { trees, over_host: system.over_host, landing, held }))
    }

    /// The tree of what the commands made of a base.
    fn made(
        &self,
        snapshot: &Snapshot,
        (base, system): (&Base, &System),
        settings: &Settings,
        root: &Path,
    ) -> Result<(PathBuf, Arc<Lock>), SnapshotError> {
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
            made: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        };
        let usable = |home: &Path, bytes: &[u8]| {
            let found: Summary = serde_json::from_slice(bytes).ok()?;
            let tree = home.join(TREE);
            (found.format == FORMAT && found.id == id && tree.is_dir()).then_some(tree)
        };
        let tree = self.shelf.ensure::<_, SnapshotError>(
            &id,
            &|| (self.tell)(Event::Building(Building::Waiting)),
            usable,
            |staging| {
                let tell = |building: Building<'_>| (self.tell)(Event::Building(building));
                Work { system, summary: &summary, settings, staging, tell: &tell }.run()?;
                let summary = serde_json::to_vec_pretty(&summary);
                Ok(summary.map_err(|error| self.shelf.failed("describe", staging, error.into()))?)
            },
        )?;
        Ok((tree, Arc::new(self.shelf.hold(&id)?)))
    }

    /// Every snapshot that is there, the newest first.
    ///
    /// # Errors
    /// A cache that cannot be read.
    pub fn all(&self) -> Result<Vec<Summary>, SnapshotError> {
        let summary = |id: String| {
            let (_, bytes) = self.shelf.find(&id)?;
            serde_json::from_slice::<Summary>(&bytes).ok()
        };
        let mut all: Vec<Summary> = self.shelf.ids()?.into_iter().filter_map(summary).collect();
        all.sort_by(|one, other| other.made.cmp(&one.made));
        Ok(all)
    }

    /// Where the log of a snapshot's commands lies.
    #[must_use]
    pub fn log(&self, id: &str) -> PathBuf {
        self.shelf.dir().join(id).join(LOG)
    }

    /// Removes a snapshot; whether nobody was making it just then.
    ///
    /// # Errors
    /// What removing says.
    pub fn remove(&self, id: &str) -> Result<bool, SnapshotError> {
        Ok(self.shelf.remove(id)?)
    }
}

/// The base that a snapshot begins with: what it names, Alpine for commands that call its package
/// manager (MoltNet's is Alpine), else this machine's system.
#[must_use]
pub fn base_of(snapshot: &Snapshot) -> Base {
    if let Some(base) = &snapshot.base {
        return base.value.clone();
    }
    let between = |c: char| c.is_whitespace() || ";|&()".contains(c);
    let calls_apk = |command: &str| command.split(between).any(|word| word == "apk");
    match snapshot.setup.iter().any(|command| calls_apk(&command.value)) {
        true => Base::Alpine,
        false => Base::Host,
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
    context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
