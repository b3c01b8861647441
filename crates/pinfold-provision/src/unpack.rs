//! The part that reads what a registry sent. It runs inside a boundary, without network.
//!
//! npm tarballs hold plain files below one directory (`package/` by convention). Everything else
//! (links, devices, absolute names, `..`) is refused, not repaired: an archive that has them is
//! not what the agent's makers published.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use flate2::read::MultiGzDecoder;
use tar::{Archive, Entry, EntryType};

use crate::plain::Plain;
use crate::recipe::{Package, Recipe, RecipeError};
use crate::steps::is_disk_full;

/// The name of the recipe next to the tarballs, so that the sandbox needs nothing else.
pub const RECIPE_FILE: &str = "recipe.json";

/// The directory of commands in a layer.
pub const BIN_DIR: &str = "bin";

/// The most bytes a layer may have when unpacked: the largest agent known has 404 MB.
pub const MOST_BYTES: u64 = 4 << 30;

/// The most entries of all tarballs of a layer: pi, the agent with most files, has 20 000.
pub const MOST_ENTRIES: u64 = 500_000;

/// Unpacking is bound by decompression; a second thread hides the small packages behind the
/// large one.
const THREADS: usize = 2;

/// What was unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Regular files.
    pub files: u64,
    /// The bytes written to them.
    pub bytes: u64,
}

/// Why a layer could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The recipe next to the tarballs cannot be used.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A file of ours could not be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The archive is damaged.
    #[error("the tarball of {package} is damaged: {}", Plain(source))]
    Damaged { package: String, source: io::Error },
    /// The archive holds something that no npm package has.
    #[error("the tarball of {package} holds `{}`, {why}; it is refused", Plain(entry))]
    Refused {
        package: String,
        /// The entry's name.
        entry: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// More than a layer may hold.
    #[error("the packages unpack to more than {MOST_BYTES} bytes or {MOST_ENTRIES} entries")]
    TooMuch,
    /// A command whose file did not come.
    #[error("command `{command}` starts `{path}`, which its package does not hold")]
    NoSuchFile { command: String, path: String },
}

impl UnpackError {
    /// Returns whether the disk or a quota is full, which is reported differently.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::File { source, .. } => is_disk_full(source),
            _ => false,
        }
    }
}

/// Unpacks a directory that [`Cache`](crate::Cache) prepared: tarballs and their recipe.
///
/// # Errors
/// Returns [`UnpackError`]; `tree` is then not to be used.
pub fn unpack_dir(tarballs: &Path, tree: &Path) -> Result<Stats, UnpackError> {
    let path = tarballs.join(RECIPE_FILE);
    let bytes = fs::read(&path).map_err(|source| file_error("read", &path, source))?;
    unpack(&Recipe::parse(&bytes)?, tarballs, tree)
}

/// Unpacks every package of a recipe from `tarballs` into `tree`, an empty directory, and links
/// its commands into `tree/bin`.
///
/// # Errors
/// Returns [`UnpackError`]; `tree` is then not to be used.
pub fn unpack(recipe: &Recipe, tarballs: &Path, tree: &Path) -> Result<Stats, UnpackError> {
    let mut packages: Vec<_> = recipe.packages().iter().collect();
    packages.sort_by_key(|package| std::cmp::Reverse(package.size));
    let budget = Budget::default();
    let next = AtomicUsize::new(0);
    let worker = || -> Result<(), UnpackError> {
        while let Some(package) = packages.get(next.fetch_add(1, Ordering::Relaxed)) {
            unpack_package(package, tarballs, tree, &budget)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (1..THREADS).map(|_| scope.spawn(worker)).collect();
        let mine = worker();
        workers.into_iter().fold(mine, |result, other| {
            result.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    })?;
    link_commands(recipe, tree)?;
    Ok(budget.stats())
}

/// What may still be written, shared by the threads.
#[derive(Default)]
struct Budget {
    files: AtomicU64,
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl Budget {
    fn take_entry(&self) -> Result<(), UnpackError> {
        let before = self.entries.fetch_add(1, Ordering::Relaxed);
        if before < MOST_ENTRIES { Ok(()) } else { Err(UnpackError::TooMuch) }
    }

    fn take_bytes(&self, bytes: usize) -> Result<(), UnpackError> {
        let before = self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        if before + bytes as u64 <= MOST_BYTES { Ok(()) } else { Err(UnpackError::TooMuch) }
    }

    fn stats(&self) -> Stats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats { files: load(&self.files), bytes: load(&self.bytes) }
    }
}

fn unpack_package(
    package: &Package,
    tarballs: &Path,
    tree: &Path,
    budget: &Budget,
) -> Result<(), UnpackError> {
    let source = tarballs.join(package.integrity.file_name());
    let file = File::open(&source).map_err(|error| file_error("open", &source, error))?;
    let mut archive = Archive::new(MultiGzDecoder::new(io::BufReader::new(file)));
    let damaged = |source| UnpackError::Damaged { package: package.name.to_string(), source };
    let root = tree.join(package.path.as_str());
    let mut written = HashSet::new();
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        budget.take_entry()?;
        if let Some(path) = wanted_file(package, &entry)? {
            let path = root.join(path);
            // Some tarballs hold a file twice; as in every tar, the later one counts. Over a
            // file of another package nothing is ever written.
            if written.contains(&path) {
                fs::remove_file(&path).map_err(|error| file_error("replace", &path, error))?;
            }
            write_file(package, &mut entry, &path, budget)?;
            written.insert(path);
        }
    }
    budget.files.fetch_add(written.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Returns the place of an entry below its package: `None` for a directory or a file not asked for.
fn wanted_file<R: Read>(
    package: &Package,
    entry: &Entry<'_, R>,
) -> Result<Option<PathBuf>, UnpackError> {
    let refuse = |why| {
        let entry = String::from_utf8_lossy(&entry.path_bytes()).chars().take(200).collect();
        Err(UnpackError::Refused { package: package.name.to_string(), entry, why })
    };
    match entry.header().entry_type() {
        EntryType::Regular | EntryType::Continuous => {}
        // Directories come from the names of their files; a global header says nothing to us.
        EntryType::Directory | EntryType::XGlobalHeader => return Ok(None),
        EntryType::Symlink | EntryType::Link => return refuse("which is a link"),
        _ => return refuse("which is neither a file nor a directory"),
    }
    let Ok(name) = entry.path() else { return refuse("whose name cannot be read") };
    if name.as_os_str().len() > 1024 || name.to_str().is_none_or(|n| n.contains(char::is_control)) {
        return refuse("whose name is too long or has odd characters");
    }
    let mut parts = name.components().filter(|part| *part != Component::CurDir);
    if !matches!(parts.next(), Some(Component::Normal(_))) {
        return refuse("which leaves its package");
    }
    let mut inside = PathBuf::new();
    for part in parts {
        match part {
            Component::Normal(part) => inside.push(part),
            _ => return refuse("which leaves its package"),
        }
    }
    if inside.as_os_str().is_empty() {
        return refuse("which is a file in place of the package's directory");
    }
    let wanted =
        package.only.is_empty() || package.only.iter().any(|o| inside.starts_with(o.as_str()));
    Ok(wanted.then_some(inside))
}

fn write_file<R: Read>(
    package: &Package,
    entry: &mut Entry<'_, R>,
    path: &Path,
    budget: &Budget,
) -> Result<(), UnpackError> {
    let damaged = |source| UnpackError::Damaged { package: package.name.to_string(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| file_error("create", parent, error))?;
    }
    // Owners and all other mode bits of the archive are ignored.
    let executable = entry.header().mode().map_err(damaged)? & 0o111 != 0;
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(|error| file_error("create", path, error))?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = entry.read(&mut buffer).map_err(damaged)?;
        if read == 0 {
            break;
        }
        budget.take_bytes(read)?;
        file.write_all(&buffer[..read]).map_err(|error| file_error("write", path, error))?;
    }
    Ok(())
}

fn link_commands(recipe: &Recipe, tree: &Path) -> Result<(), UnpackError> {
    let dir = tree.join(BIN_DIR);
    fs::create_dir_all(&dir).map_err(|error| file_error("create", &dir, error))?;
    for bin in recipe.bin() {
        let target = tree.join(bin.path.as_str());
        if !target.is_file() {
            return Err(UnpackError::NoSuchFile {
                command: bin.command.to_string(),
                path: bin.path.to_string(),
            });
        }
        fs::set_permissions(&target, Permissions::from_mode(0o755))
            .map_err(|error| file_error("make executable", &target, error))?;
        let link = dir.join(bin.command.as_str());
        symlink(Path::new("..").join(bin.path.as_str()), &link)
            .map_err(|error| file_error("link", &link, error))?;
    }
    Ok(())
}

fn file_error(doing: &'static str, path: &Path, source: io::Error) -> UnpackError {
    UnpackError::File { doing, path: path.to_owned(), source }
}
