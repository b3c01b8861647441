//! Layers on disk: made once, by one process, and either whole or not there.
//!
//! ```text
//! agents/<hash>/tree/…         the layer; its `bin` holds the commands
//! agents/<hash>/layer.json     written last, so its presence says that the tree is whole
//! agents/<hash>.lock           held while the layer is made
//! agents/<hash>.tmp-<pid>/     where it is made; worthless once nobody holds the lock
//! ```

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::digest::{Integrity, LayerId};
use crate::lock::Lock;
use crate::names::Registry;
use crate::recipe::{Recipe, RecipeError};
use crate::seal::{SealError, remove_tree, seal};
use crate::steps::{Event, Fetch, Fetched, Job, StepError, Unpack, is_disk_full};
use crate::unpack::{BIN_DIR, RECIPE_FILE, Stats};

const TREE: &str = "tree";
const SUMMARY: &str = "layer.json";
const TARBALLS: &str = "tarballs";
const SUMMARY_FORMAT: u32 = 1;

/// How often a download may report, so that a terminal is not flooded.
const REPORT_EVERY: Duration = Duration::from_millis(50);

/// The layers of one user.
#[derive(Debug, Clone)]
pub struct Cache {
    dir: PathBuf,
    registry: Registry,
}

/// An agent, unpacked and read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
    /// Its name.
    pub id: LayerId,
    /// The directory to mount.
    pub dir: PathBuf,
    /// The directory of commands, below [`Self::dir`]; its links are relative.
    pub bin_dir: PathBuf,
    /// What is in it.
    pub stats: Stats,
}

/// `layer.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    format: u32,
    recipe: String,
    agent: String,
    version: String,
    files: u64,
    bytes: u64,
}

/// Why there is no layer.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The recipe cannot be written down.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A file of the cache could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No space or quota left. What was there of the layer has been removed.
    #[error(
        "no space left in {} while {doing}; free some, or set XDG_CACHE_HOME to another disk",
        dir.display()
    )]
    DiskFull {
        /// What was being done.
        doing: &'static str,
        /// The cache's directory.
        dir: PathBuf,
    },
    /// A package could not be downloaded.
    #[error("cannot download the packages of {agent}: {source}")]
    Fetch {
        /// The agent.
        agent: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A package is not what the recipe says.
    #[error(
        "{package} from {url} is not what the recipe expects ({found} instead of {expected}); \
         nothing of it was used"
    )]
    Mismatch {
        /// `name@version`.
        package: String,
        /// Where it came from.
        url: String,
        /// The recipe's digest.
        expected: String,
        /// The file's digest.
        found: String,
    },
    /// The packages could not be unpacked inside.
    #[error("cannot unpack {agent}: {source}")]
    Unpack {
        /// The agent.
        agent: String,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What came out of the boundary is not a layer.
    #[error(transparent)]
    Seal(SealError),
}

impl Cache {
    /// The cache in `dir` (by convention `$XDG_CACHE_HOME/pinfold/agents`), fed from `registry`.
    #[must_use]
    pub fn new(dir: PathBuf, registry: Registry) -> Self {
        Self { dir, registry }
    }

    /// The layer of a recipe (already narrowed to a platform) if it has been made.
    ///
    /// # Errors
    /// The recipe cannot be written down. A layer that cannot be read counts as absent.
    pub fn get(&self, recipe: &Recipe) -> Result<Option<Layer>, CacheError> {
        Ok(self.find(recipe.hash()?))
    }

    /// The layer of a recipe (already narrowed to a platform), made now if need be.
    ///
    /// Of several processes that ask for one layer, one works and the others wait.
    ///
    /// # Errors
    /// See [`CacheError`]. What a failed attempt left is removed; what a killed one left is
    /// removed by the next call.
    pub fn ensure(
        &self,
        recipe: &Recipe,
        fetch: &dyn Fetch,
        unpack: &dyn Unpack,
        progress: &dyn Fn(Event),
    ) -> Result<Layer, CacheError> {
        let id = recipe.hash()?;
        if let Some(layer) = self.find(id) {
            return Ok(layer);
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|source| self.file_error("create", &self.dir, source))?;
        let _lock = self.lock(id, progress)?;
        if let Some(layer) = self.find(id) {
            return Ok(layer);
        }
        self.sweep(id);
        let work = Work { cache: self, recipe, id, progress };
        let staging = self.dir.join(format!("{id}.tmp-{}", std::process::id()));
        let made = work.make(&staging, fetch, unpack);
        if made.is_err() {
            // The first error is the one to tell; what this leaves, the next start sweeps.
            remove_tree(&staging).unwrap_or_default();
        }
        made
    }

    fn find(&self, id: LayerId) -> Option<Layer> {
        let home = self.dir.join(id.to_string());
        let bytes = fs::read(home.join(SUMMARY)).ok()?;
        let summary: Summary = serde_json::from_slice(&bytes).ok()?;
        if summary.format != SUMMARY_FORMAT || summary.recipe != id.to_string() {
            return None;
        }
        let dir = home.join(TREE);
        let bin_dir = dir.join(BIN_DIR);
        let stats = Stats { files: summary.files, bytes: summary.bytes };
        bin_dir.is_dir().then_some(Layer { id, dir, bin_dir, stats })
    }

    fn lock(&self, id: LayerId, progress: &dyn Fn(Event)) -> Result<Lock, CacheError> {
        let path = self.dir.join(format!("{id}.lock"));
        let taken = Lock::try_take(&path).and_then(|lock| match lock {
            Some(lock) => Ok(lock),
            None => {
                progress(Event::Waiting);
                Lock::take(&path)
            }
        });
        taken.map_err(|source| self.file_error("lock", &path, source))
    }

    /// Removes what killed processes left: staging directories whose lock nobody else holds.
    fn sweep(&self, mine: LayerId) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some((id, _)) = name.to_str().and_then(|name| name.split_once(".tmp-")) else {
                continue;
            };
            let lock = (id != mine.to_string())
                .then(|| Lock::try_take(&self.dir.join(format!("{id}.lock"))));
            let abandoned = lock.as_ref().is_none_or(|lock| matches!(lock, Ok(Some(_))));
            if abandoned {
                // A failure is not in the way of this layer; the next start tries again.
                remove_tree(&entry.path()).unwrap_or_default();
            }
        }
    }

    fn file_error(&self, doing: &'static str, path: &Path, source: io::Error) -> CacheError {
        if is_disk_full(&source) {
            return CacheError::DiskFull { doing: "writing", dir: self.dir.clone() };
        }
        CacheError::File { doing, path: path.to_owned(), source }
    }
}

/// The making of one layer.
struct Work<'a> {
    cache: &'a Cache,
    recipe: &'a Recipe,
    id: LayerId,
    progress: &'a dyn Fn(Event),
}

impl Work<'_> {
    fn make(
        &self,
        staging: &Path,
        fetch: &dyn Fetch,
        unpack: &dyn Unpack,
    ) -> Result<Layer, CacheError> {
        let tarballs = staging.join(TARBALLS);
        let tree = staging.join(TREE);
        for dir in [staging, &tarballs, &tree] {
            fs::create_dir(dir).map_err(|e| self.cache.file_error("create", dir, e))?;
        }
        self.write(&tarballs.join(RECIPE_FILE), &self.recipe.to_bytes()?)?;
        self.fetch(&self.recipe.jobs(&self.cache.registry, &tarballs), fetch)?;
        (self.progress)(Event::Unpacking);
        unpack.unpack(&tarballs, &tree).map_err(|error| self.unpack_error(error))?;
        (self.progress)(Event::Sealing);
        remove_tree(&tarballs).map_err(|e| self.cache.file_error("remove", &tarballs, e))?;
        let stats = seal(&tree).map_err(|error| self.seal_error(error))?;
        self.publish(staging, stats)
    }

    fn fetch(&self, jobs: &[Job], fetch: &dyn Fetch) -> Result<(), CacheError> {
        let bytes = jobs.iter().map(|job| job.size).sum::<Option<u64>>();
        let last = std::cell::Cell::new(None::<Instant>);
        let report = |done: Fetched| {
            let now = Instant::now();
            let soon = last.get().is_some_and(|then| now - then < REPORT_EVERY);
            if !soon || done.packages == jobs.len() {
                last.set(Some(now));
                (self.progress)(Event::Fetching { done, packages: jobs.len(), bytes });
            }
        };
        report(Fetched::default());
        fetch.fetch_all(jobs, &report).map_err(|error| match error {
            StepError::DiskFull => self.disk_full("downloading"),
            StepError::Failed(source) => {
                CacheError::Fetch { agent: self.recipe.name().to_string(), source }
            }
        })?;
        (self.progress)(Event::Verifying);
        jobs.iter().try_for_each(|job| self.verify(job))
    }

    /// The fetcher compares while it streams, to stop early; this is the check that counts.
    fn verify(&self, job: &Job) -> Result<(), CacheError> {
        let found = Integrity::of_file(&job.file)
            .map_err(|e| self.cache.file_error("read the download", &job.file, e))?;
        if found == job.integrity {
            return Ok(());
        }
        Err(CacheError::Mismatch {
            package: job.package.clone(),
            url: job.url.clone(),
            expected: job.integrity.to_string(),
            found: found.to_string(),
        })
    }

    /// Writes the summary, waits for the disk, and moves the layer to its place.
    fn publish(&self, staging: &Path, stats: Stats) -> Result<Layer, CacheError> {
        let summary = Summary {
            format: SUMMARY_FORMAT,
            recipe: self.id.to_string(),
            agent: self.recipe.name().to_string(),
            version: self.recipe.version().to_string(),
            files: stats.files,
            bytes: stats.bytes,
        };
        let bytes = serde_json::to_vec_pretty(&summary).map_err(RecipeError::from)?;
        self.write(&staging.join(SUMMARY), &bytes)?;
        // One syncfs instead of an fsync for each of thousands of files.
        sync_file_system(staging).map_err(|e| self.cache.file_error("sync", staging, e))?;
        let home = self.cache.dir.join(self.id.to_string());
        // Only a layer that `find` refused can be in the way.
        remove_tree(&home)
            .or_else(ignore_absent)
            .map_err(|e| self.cache.file_error("replace", &home, e))?;
        fs::rename(staging, &home).map_err(|e| self.cache.file_error("put in place", &home, e))?;
        File::open(&self.cache.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|e| self.cache.file_error("sync", &self.cache.dir, e))?;
        let dir = home.join(TREE);
        Ok(Layer { id: self.id, bin_dir: dir.join(BIN_DIR), dir, stats })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
        fs::write(path, bytes).map_err(|e| self.cache.file_error("write", path, e))
    }

    fn disk_full(&self, doing: &'static str) -> CacheError {
        CacheError::DiskFull { doing, dir: self.cache.dir.clone() }
    }

    fn unpack_error(&self, error: StepError) -> CacheError {
        match error {
            StepError::DiskFull => self.disk_full("unpacking"),
            StepError::Failed(source) => {
                CacheError::Unpack { agent: self.recipe.name().to_string(), source }
            }
        }
    }

    fn seal_error(&self, error: SealError) -> CacheError {
        match error {
            SealError::File { source, .. } if is_disk_full(&source) => self.disk_full("sealing"),
            other => CacheError::Seal(other),
        }
    }
}

fn ignore_absent(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn sync_file_system(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(path)?)?)
}
