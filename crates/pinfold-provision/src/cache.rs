//! Layers on disk: made once, by one process, and either whole or not there.
//!
//! On a [`Shelf`], each holds `tree/…`, whose `bin` holds the commands, and `layer.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_trees::remove_tree;
use serde::{Deserialize, Serialize};

use crate::digest::{Integrity, LayerId};
use crate::lock::Lock;
use crate::names::Registry;
use crate::recipe::{Recipe, RecipeError};
use crate::seal::{SealError, seal};
use crate::shelf::{Pruned, Shelf, ShelfError};
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
    shelf: Shelf,
    registry: Registry,
}

/// An agent, unpacked and read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layer {
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
    /// A file of the cache could not be read or written, or the disk is full.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A package could not be downloaded.
    #[error("cannot download the packages of {agent}: {source}")]
    Fetch { agent: String, source: Box<dyn std::error::Error + Send + Sync> },
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
    Unpack { agent: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// What came out of the boundary is not a layer.
    #[error(transparent)]
    Seal(SealError),
}

impl Cache {
    /// Returns the cache in `dir` (by convention `$XDG_CACHE_HOME/pinfold/agents`), fed from `registry`.
    #[must_use]
    pub fn new(dir: PathBuf, registry: Registry) -> Self {
        Self { shelf: Shelf::new(dir, SUMMARY), registry }
    }

    /// Returns the layer of a recipe (already narrowed to a platform) if it has been made.
    ///
    /// # Errors
    /// Returns an error if the recipe cannot be written down. A layer that cannot be read counts as
    /// absent.
    pub fn get(&self, recipe: &Recipe) -> Result<Option<Layer>, CacheError> {
        let id = recipe.hash()?;
        let found = self.shelf.find(&id.to_string());
        Ok(found.and_then(|(home, summary)| layer(id, &home, &summary)))
    }

    /// Returns the layer of a recipe (already narrowed to a platform), made now if need be.
    ///
    /// Of several processes that ask for one layer, one works and the others wait. Nobody removes the layer as
    /// long as the lock is held.
    ///
    /// # Errors
    /// Returns [`CacheError`]. What a failed attempt left is removed; what a killed one left is
    /// removed by the next call.
    pub fn ensure(
        &self,
        recipe: &Recipe,
        fetch: &dyn Fetch,
        unpack: &dyn Unpack,
        progress: &dyn Fn(Event),
    ) -> Result<(Layer, Lock), CacheError> {
        let id = recipe.hash()?;
        let work = Work { cache: self, recipe, id, progress };
        self.shelf.ensure::<_, CacheError>(
            &id.to_string(),
            &|| progress(Event::Waiting),
            |home, summary| layer(id, home, summary),
            |staging| work.make(staging, fetch, unpack),
        )
    }

    /// Returns the agents that are unpacked, with their versions, sorted.
    ///
    /// # Errors
    /// Returns the error of a directory that is there and cannot be read.
    pub fn agents(&self) -> Result<Vec<(String, String)>, ShelfError> {
        let summary = |id: String| {
            let (_, bytes) = self.shelf.find(&id)?;
            serde_json::from_slice::<Summary>(&bytes).ok()
        };
        let summaries = self.shelf.ids()?.into_iter().filter_map(summary);
        let mut agents: Vec<_> =
            summaries.map(|summary| (summary.agent, summary.version)).collect();
        agents.sort_unstable();
        Ok(agents)
    }

    /// Removes the layers that no session uses, and what killed processes left.
    ///
    /// # Errors
    /// Returns the error of the first layer that cannot be removed.
    pub fn prune(&self) -> Result<Pruned, ShelfError> {
        self.shelf.prune(|_| true)
    }

    /// Returns the directory of the layers.
    #[must_use]
    pub fn shelf(&self) -> &Shelf {
        &self.shelf
    }
}

/// Returns a layer that is whole, unless another version of pinfold made it.
fn layer(id: LayerId, home: &Path, summary: &[u8]) -> Option<Layer> {
    let summary: Summary = serde_json::from_slice(summary).ok()?;
    if summary.format != SUMMARY_FORMAT || summary.recipe != id.to_string() {
        return None;
    }
    let dir = home.join(TREE);
    let bin_dir = dir.join(BIN_DIR);
    let stats = Stats { files: summary.files, bytes: summary.bytes };
    bin_dir.is_dir().then_some(Layer { id, dir, bin_dir, stats })
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
    ) -> Result<Vec<u8>, CacheError> {
        let tarballs = staging.join(TARBALLS);
        let tree = staging.join(TREE);
        for dir in [&tarballs, &tree] {
            fs::create_dir(dir).map_err(|e| self.cache.shelf.failed("create", dir, e))?;
        }
        self.write(&tarballs.join(RECIPE_FILE), &self.recipe.to_bytes()?)?;
        self.fetch(&self.recipe.jobs(&self.cache.registry, &tarballs), fetch)?;
        (self.progress)(Event::Unpacking);
        unpack.unpack(&tarballs, &tree).map_err(|error| self.unpack_error(error))?;
        (self.progress)(Event::Sealing);
        remove_tree(&tarballs).map_err(|e| self.cache.shelf.failed("remove", &tarballs, e))?;
        let stats = seal(&tree).map_err(|error| self.seal_error(error))?;
        self.summary(stats)
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

    /// Compares the digest. The fetcher does so while it streams, to stop early; this is the check that counts.
    fn verify(&self, job: &Job) -> Result<(), CacheError> {
        let found = Integrity::of_file(&job.file)
            .map_err(|e| self.cache.shelf.failed("read the download", &job.file, e))?;
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

    fn summary(&self, stats: Stats) -> Result<Vec<u8>, CacheError> {
        let summary = Summary {
            format: SUMMARY_FORMAT,
            recipe: self.id.to_string(),
            agent: self.recipe.name().to_string(),
            version: self.recipe.version().to_string(),
            files: stats.files,
            bytes: stats.bytes,
        };
        Ok(serde_json::to_vec_pretty(&summary).map_err(RecipeError::from)?)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
        Ok(fs::write(path, bytes).map_err(|e| self.cache.shelf.failed("write", path, e))?)
    }

    fn disk_full(&self, doing: &'static str) -> CacheError {
        ShelfError::DiskFull { doing, dir: self.cache.shelf.dir().to_owned() }.into()
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
