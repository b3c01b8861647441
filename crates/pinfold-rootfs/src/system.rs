//! The systems that sessions can run on instead of this machine's own as it is (requirement 3.3):
//! trees in the user's cache, each made once from an image, a tarball, a directory or this
//! machine's own.
//!
//! An image is downloaded and verified here and unpacked inside a boundary; nothing of it runs on
//! the host. A tag is looked up once and then means what it meant, until it is asked for again.

mod error;
mod host;
mod stack;
mod stored;
mod tarball;

use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pinfold_egress::{Downloader, Progress, WayOut};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::memo::Memo;
use pinfold_policy::limits::{ByteSize, Limits};
use pinfold_policy::project::Base;
use pinfold_provision::{Lock, Shelf, StepError};
use pinfold_registry::{Reference, Registry};
use pinfold_snapshot::disk::Disk;
use serde::{Deserialize, Serialize};

pub use error::SystemError;
pub(crate) use stack::OPAQUE;
pub use stack::{Landing, Seen, Stack};
pub use tarball::version_of;

use crate::unpack::unpack_in_scratch;

/// What `alpine` and `debian` stand for.
const ALPINE: &str = "docker.io/library/alpine:3.22";
const DEBIAN: &str = "docker.io/library/debian:12-slim";

const SUMMARY: &str = "base.json";
const TREE: &str = "tree";
const ARCHIVES: &str = "archives";
const FORMAT: u32 = 1;

/// A system that is there.
#[derive(Debug, Clone)]
pub struct System {
    /// What its content is named by: `sha256:` and hexadecimal digits for what cannot change, a
    /// path for a directory.
    pub id: String,
    /// Its tree on the host.
    pub tree: PathBuf,
    /// Whether this machine's programs lie beneath it.
    pub over_host: bool,
    /// Keeps it from being removed while it is used; none for a directory.
    pub held: Option<Arc<Lock>>,
}

impl System {
    fn held(self, lock: Lock) -> Self {
        Self { held: Some(Arc::new(lock)), ..self }
    }
}

/// A base on the shelf, as `base.json` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    format: u32,
    pub id: String,
    /// What it was asked for as.
    pub from: String,
}

/// What is being done, for a user who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Another process makes the same; this one waits for it.
    Waiting,
    /// Layers are coming in.
    Fetching(Progress),
    /// An engine writes down an image that it has.
    Saving,
    /// A boundary is unpacking.
    Unpacking,
    /// This machine's own system is scanned.
    Reading,
}

/// The user's systems.
#[expect(missing_debug_implementations, reason = "holds a closure")]
pub struct Systems<'a> {
    places: &'a Places,
    launcher: &'a Launcher,
    shelf: Shelf,
    memo: Memo,
    /// Whether tags are looked up again.
    refresh: bool,
    /// Bytes of the disk that one may fill.
    most: ByteSize,
    /// Directories from which no engine's program is taken.
    written: Vec<PathBuf>,
    doing: &'a dyn Fn(Doing),
}

impl<'a> Systems<'a> {
    /// Returns those in the user's cache; `doing` is called before what takes time.
    #[must_use]
    pub fn new(host: Host<'a>, doing: &'a dyn Fn(Doing)) -> Self {
        let Host { places, launcher } = host;
        let dir = places.cache.join("bases");
        let memo = Memo::of_bases(places);
        let (shelf, most) = (Shelf::new(dir, SUMMARY), Limits::DEFAULT_BUILD);
        Self { places, launcher, shelf, memo, refresh: false, most, written: Vec::new(), doing }
    }

    /// Returns the same, but that no engine's program is taken from directories in which a sandbox may
    /// have written.
    #[must_use]
    pub fn not_from(self, written: Vec<PathBuf>) -> Self {
        Self { written, ..self }
    }

    /// Returns the same, but that one that is made may fill so much of the disk.
    #[must_use]
    pub fn bounded(self, most: ByteSize) -> Self {
        Self { most, ..self }
    }

    /// Returns the same, but that tags are looked up again.
    #[must_use]
    pub fn refreshing(self, refresh: bool) -> Self {
        Self { refresh, ..self }
    }

    /// Returns every one that is there, except directories.
    ///
    /// # Errors
    /// Returns an error for a cache that cannot be read.
    pub fn all(&self) -> Result<Vec<Summary>, SystemError> {
        let summary = |id: String| {
            let (_, bytes) = self.shelf.find(&id)?;
            let summary: Summary = serde_json::from_slice(&bytes).ok()?;
            (plain(&summary.id) == id).then_some(summary)
        };
        Ok(self.shelf.ids()?.into_iter().filter_map(summary).collect())
    }

    /// Returns the directory of the systems.
    #[must_use]
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// Removes what killed processes left.
    pub fn clean(&self) {
        self.shelf.clean();
    }

    /// Removes one; whether nobody was making or using it just then.
    ///
    /// # Errors
    /// Returns the error of removing.
    pub fn remove(&self, id: &str) -> Result<bool, SystemError> {
        Ok(self.shelf.remove(plain(id))?)
    }

    /// Returns the system of a base, made now if need be. Paths are relative to `root`.
    ///
    /// # Errors
    /// Returns [`SystemError`]; what a failed attempt left is removed.
    pub fn ensure(&self, base: &Base, root: &Path) -> Result<System, SystemError> {
        match base {
            Base::Host => self.host(),
            Base::Alpine => self.image(ALPINE, "alpine"),
            Base::Debian => self.image(DEBIAN, "debian"),
            Base::Image(name) => self.image(name, name),
            Base::Stored(engine, name) => self.stored(*engine, name, &base.to_string()),
            Base::Tarball(path) => self.tarball(&root.join(path)),
            Base::Directory(path) => self.directory(path, root),
        }
    }

    /// Returns what is put over this machine's own system, for the version that it has now. A package
    /// manager may be at work, so what changes while it is read is read again, a few times.
    fn host(&self) -> Result<System, SystemError> {
        const ATTEMPTS: usize = 3;
        for _ in 1..ATTEMPTS {
            match self.host_as_it_is() {
                Err(SystemError::Changing { .. }) => {}
                made => return made,
            }
        }
        self.host_as_it_is()
    }

    /// Returns the same, of a system that does not change. Those for other versions are of no use any
    /// more.
    fn host_as_it_is(&self) -> Result<System, SystemError> {
        let failed = |source| SystemError::Path { path: PathBuf::from("/"), source };
        if let Some(point) = host::mounted_within().map_err(failed)? {
            return Err(SystemError::MountedWithin { point });
        }
        let id = host::id().map_err(failed)?;
        let (system, lock) = self.shelf.ensure::<_, SystemError>(
            &id,
            &|| (self.doing)(Doing::Waiting),
            |home, summary| usable(home, summary, &id),
            |staging| {
                (self.doing)(Doing::Reading);
                let tree = staging.join(TREE);
                fs::create_dir(&tree)
                    .and_then(|()| host::make(&tree))
                    .map_err(|error| self.shelf.failed("fill", &tree, error))?;
                if host::id().map_err(failed)? != id {
                    return Err(SystemError::Changing { path: PathBuf::from("/") });
                }
                for old in self.shelf.ids()?.iter().filter(|old| host::is_id(old)) {
                    self.shelf.remove(old)?;
                }
                self.summary(&id, &Base::Host.to_string(), staging)
            },
        )?;
        Ok(System { over_host: true, ..system.held(lock) })
    }

    /// Returns the system of a base if it is there already, as [`Systems::ensure`] would give it.
    ///
    /// # Errors
    /// Returns [`SystemError`].
    pub fn find(&self, base: &Base, root: &Path) -> Result<Option<System>, SystemError> {
        let known = |name: &str| match self.memo.get(name) {
            Some(digest) => self.held(&digest),
            None => Ok(None),
        };
        let image = |name: &str| known(&name.parse::<Reference>()?.to_string());
        match base {
            Base::Host => {
                let failed = |source| SystemError::Path { path: PathBuf::from("/"), source };
                let found = self.held(&host::id().map_err(failed)?)?;
                Ok(found.map(|system| System { over_host: true, ..system }))
            }
            Base::Alpine => image(ALPINE),
            Base::Debian => image(DEBIAN),
            Base::Image(name) => image(name),
            Base::Stored(engine, name) => self.find_stored(*engine, name),
            Base::Tarball(path) => known(&tarball::version_at(&root.join(path))?),
            Base::Directory(path) => self.directory(path, root).map(Some),
        }
    }

    fn image(&self, name: &str, asked: &str) -> Result<System, SystemError> {
        let reference: Reference = name.parse()?;
        let remembered = if self.refresh { None } else { self.memo.get(&reference.to_string()) };
        let remembered = remembered.or_else(|| reference.digest().map(str::to_owned));
        if let Some(digest) = &remembered
            && let Some(found) = self.held(digest)?
        {
            return Ok(found);
        }
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        let failed = |source| SystemError::Image { base: asked.to_owned(), source };
        let registry = Registry::new(Downloader::new(
            WayOut::from_environment().map_err(SystemError::way_out)?,
        ));
        // What was removed since comes again as what it was.
        let wanted = match &remembered {
            Some(digest) => reference.pinned(digest)?,
            None => reference.clone(),
        };
        let image = registry.resolve(&wanted, architecture).map_err(failed)?;
        let packed = image.layers.iter().map(|layer| layer.size).fold(0, u64::saturating_add);
        let system = self.ensure_tree(&image.digest, asked, &[], |archives| {
            self.check_room(archives, packed, asked)?;
            let doing = self.doing;
            let mut report = |progress| doing(Doing::Fetching(progress));
            registry.fetch(&wanted, &image, archives, &mut report).map_err(failed)
        })?;
        self.memo.put(&reference.to_string(), &image.digest).map_err(SystemError::Memo)?;
        Ok(system)
    }

    /// Returns a directory as it lies there: it is looked at when it is used, and used as it is. One
    /// that holds the user's home or pinfold's own files is this machine, not a system for a session.
    fn directory(&self, path: &Path, root: &Path) -> Result<System, SystemError> {
        let path = root.join(path);
        let failed = |source| SystemError::Path { path: path.clone(), source };
        let tree = fs::canonicalize(&path).map_err(failed)?;
        // Sessions write to the workspace, so what it says of links is no word of the user's.
        let is_own =
            path.starts_with(root) && path.components().all(|part| part != Component::ParentDir);
        let real = fs::canonicalize(root).map_err(failed)?;
        if is_own && !tree.starts_with(real) {
            let what = "in the workspace: a link leads out of it, to what can be named itself";
            return Err(SystemError::NotWhatItSays { path: tree, what });
        }
        let Places { home, config, state, cache } = self.places;
        let is_ours = |own: &PathBuf| fs::canonicalize(own).is_ok_and(|own| own.starts_with(&tree));
        if [home, config, state, cache].into_iter().any(is_ours) {
            let what = "a system of its own: your home or pinfold's files lie in it";
            return Err(SystemError::NotWhatItSays { path: tree, what });
        }
        let is_system = ["usr", "bin"].iter().any(|name| tree.join(name).is_dir());
        if !is_system || File::open(&tree).is_err() {
            let what = "a system with /usr or /bin";
            return Err(SystemError::NotWhatItSays { path: tree, what });
        }
        Ok(System { id: tree.display().to_string(), tree, over_host: false, held: None })
    }

    /// Checks that archives of so many bytes are within what may be written, and leave room for others.
    fn check_room(&self, dir: &Path, packed: u64, from: &str) -> Result<(), SystemError> {
        if packed > self.most.bytes() {
            return Err(SystemError::TooLarge { base: from.to_owned(), packed, most: self.most });
        }
        let disk = Disk::of(dir).map_err(|error| self.shelf.failed("look at", dir, error))?;
        if disk.is_short_for(packed) { Err(self.disk_full(from)) } else { Ok(()) }
    }

    fn disk_full(&self, from: &str) -> SystemError {
        SystemError::DiskFull { base: from.to_owned(), dir: self.shelf.dir().to_owned() }
    }

    fn held(&self, digest: &str) -> Result<Option<System>, SystemError> {
        let held = self.shelf.hold(plain(digest), |home, summary| usable(home, summary, digest))?;
        Ok(held.map(|(system, lock)| system.held(lock)))
    }

    fn summary(&self, id: &str, from: &str, staging: &Path) -> Result<Vec<u8>, SystemError> {
        let summary = Summary { format: FORMAT, id: id.to_owned(), from: from.to_owned() };
        let summary = serde_json::to_vec_pretty(&summary);
        Ok(summary.map_err(|error| self.shelf.failed("describe", staging, error.into()))?)
    }

    /// Returns the tree of what `fill` puts into a directory as archives: if it is an image that an
    /// engine has saved, with these layers.
    fn ensure_tree(
        &self,
        digest: &str,
        from: &str,
        layers: &[String],
        fill: impl FnOnce(&Path) -> Result<(), SystemError>,
    ) -> Result<System, SystemError> {
        let make = |staging: &Path| {
            let (archives, tree) = (staging.join(ARCHIVES), staging.join(TREE));
            for dir in [&archives, &tree] {
                fs::create_dir(dir).map_err(|error| self.shelf.failed("create", dir, error))?;
            }
            fill(&archives)?;
            (self.doing)(Doing::Unpacking);
            let most = self.most.bytes().to_string();
            let mut unpack = vec!["unpack-system", "--most", &most];
            unpack.extend(layers.iter().flat_map(|layer| ["--layer", layer]));
            unpack_in_scratch(&unpack, &archives, &tree).map_err(|error| match error {
                StepError::DiskFull => self.disk_full(from),
                StepError::Failed(source) => SystemError::Unpack { base: from.to_owned(), source },
            })?;
            pinfold_trees::remove_tree(&archives)
                .map_err(|error| self.shelf.failed("remove", &archives, error))?;
            self.summary(digest, from, staging)
        };
        let (system, lock) = self.shelf.ensure::<_, SystemError>(
            plain(digest),
            &|| (self.doing)(Doing::Waiting),
            |home, summary| usable(home, summary, digest),
            make,
        )?;
        Ok(system.held(lock))
    }
}

/// Returns a digest as the name of a file.
fn plain(digest: &str) -> &str {
    digest.strip_prefix("sha256:").unwrap_or(digest)
}

fn usable(home: &Path, summary: &[u8], digest: &str) -> Option<System> {
    let summary: Summary = serde_json::from_slice(summary).ok()?;
    let fits = summary.format == FORMAT && summary.id == digest;
    // No link may be on the way to a tree, and the cache may lie behind one.
    let tree = fs::canonicalize(home.join(TREE)).ok().filter(|tree| fits && tree.is_dir())?;
    Some(System { id: summary.id, tree, over_host: false, held: None })
}
