//! Which files a bundle has.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::Finding;
use crate::finding::SAY_IT;

/// Files and directories of a bundle.
const MOST_ENTRIES: usize = 100_000;
/// Directories in directories.
const DEEPEST: usize = 64;

/// Whether the packages that a bundle brings are part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeModules {
    /// They are: they run with it.
    Included,
    /// Directories of the name `node_modules` are passed by.
    LeftOut,
}

/// A directory with extensions.
#[derive(Debug)]
pub struct Bundle {
    /// Where it really lies.
    pub root: PathBuf,
    /// Its code and its descriptions of packages, relative to it, in order.
    pub files: Vec<PathBuf>,
    /// Reasons to refuse it whatever is in its files.
    pub findings: Vec<Finding>,
}

/// Why a bundle cannot be looked at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BundleError {
    /// It or a directory in it cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        path: PathBuf,
        /// The file system's error.
        error: io::Error,
    },
    /// It is too large.
    #[error("the bundle has more than {MOST_ENTRIES} files and directories")]
    TooMany,
    /// It is too deep.
    #[error("{}: more than {DEEPEST} directories deep", .0.display())]
    TooDeep(PathBuf),
    /// It has nothing to look at: most likely another directory was meant.
    #[error("{}: no JavaScript or TypeScript in it", .0.display())]
    Empty(PathBuf),
}

impl BundleError {
    fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Read { path, error }
    }
}

impl Bundle {
    /// Lists what is in a directory. Links are not followed: what they lead to in the bundle is
    /// found by itself, and what they lead to elsewhere is a reason to refuse it.
    ///
    /// # Errors
    /// Returns an error for a directory that cannot be read, or that is larger or deeper than any
    /// bundle.
    pub fn open(directory: &Path, packages: NodeModules) -> Result<Self, BundleError> {
        let root = fs::canonicalize(directory).map_err(BundleError::read(directory))?;
        let mut bundle = Self { root, files: Vec::new(), findings: Vec::new() };
        let (mut waiting, mut entries) = (vec![PathBuf::new()], 0);
        while let Some(directory) = waiting.pop() {
            if directory.components().count() > DEEPEST {
                return Err(BundleError::TooDeep(bundle.root.join(directory)));
            }
            let path = bundle.root.join(&directory);
            for entry in fs::read_dir(&path).map_err(BundleError::read(&path))? {
                let entry = entry.map_err(BundleError::read(&path))?;
                entries += 1;
                if entries > MOST_ENTRIES {
                    return Err(BundleError::TooMany);
                }
                let kind = entry.file_type().map_err(BundleError::read(&path))?;
                let file = directory.join(entry.file_name());
                if kind.is_symlink() {
                    bundle.look_at_link(file);
                } else if !kind.is_dir() {
                    bundle.look_at_file(file, kind.is_file());
                } else if packages == NodeModules::Included || !file.ends_with("node_modules") {
                    waiting.push(file);
                }
            }
        }
        if bundle.files.is_empty() && bundle.findings.is_empty() {
            return Err(BundleError::Empty(bundle.root));
        }
        bundle.files.sort();
        bundle.files.dedup();
        bundle.findings.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(bundle)
    }

    fn look_at_file(&mut self, file: PathBuf, is_regular: bool) {
        if !is_code(&file) && !is_manifest(&file) {
            return;
        }
        if is_regular {
            self.files.push(file);
        } else {
            self.refuse(&file, "a name of code that is no file");
        }
    }

    fn look_at_link(&mut self, link: PathBuf) {
        // What leads nowhere is not loaded.
        let Ok(target) = fs::canonicalize(self.root.join(&link)) else { return };
        match target.strip_prefix(&self.root) {
            // Node loads the target under its own name, whose ending may say nothing.
            Ok(inside) if is_code(&link) && target.is_file() => self.files.push(inside.to_owned()),
            Ok(_) => {}
            Err(_) => self.refuse(&link, "a link that leads out of the bundle"),
        }
    }

    fn refuse(&mut self, file: &Path, what: &str) {
        let file = file.to_string_lossy().into_owned();
        let (what, replacement) = (what.to_owned(), "bring the file itself".to_owned());
        self.findings.push(Finding { file, line: 1, column: 1, what, replacement });
    }
}

/// Returns whether Node or a loader for TypeScript runs what is called so. Declarations have no code;
/// one that is loaded by its name is looked at nevertheless.
fn is_code(file: &Path) -> bool {
    const ENDINGS: [&str; 8] = ["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"];
    let Some(name) = file.file_name().map(|name| name.to_string_lossy()) else { return false };
    let declares = [".d.ts", ".d.mts", ".d.cts"].iter().any(|ending| name.ends_with(ending));
    let ending = file.extension().map(|ending| ending.to_string_lossy());
    !declares && ending.is_some_and(|ending| ENDINGS.contains(&ending.as_ref()))
}

pub(crate) fn is_manifest(file: &Path) -> bool {
    file.ends_with("package.json")
}

/// Where a file leads that another loads by this name.
pub(crate) enum Leads {
    /// To code in the bundle that its ending does not show.
    ToCode(PathBuf),
    /// Out of the bundle.
    Out,
    /// To what is looked at anyway, or is no code.
    Nowhere,
}

/// Returns where a name leads that code of this file loads. CommonJS takes every ending that it does not
/// know for JavaScript.
pub(crate) fn lead(root: &Path, file: &Path, name: &str) -> Leads {
    if name.starts_with('/') || name.starts_with("file:") {
        return Leads::Out;
    }
    let mut path: Vec<&std::ffi::OsStr> =
        file.parent().map(|parent| parent.iter().collect()).unwrap_or_default();
    for component in Path::new(name).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::ParentDir if path.pop().is_none() => return Leads::Out,
            _ => {}
        }
    }
    let path: PathBuf = path.into_iter().collect();
    let without = path.to_str().and_then(|path| path.split(['?', '#']).next()).map(PathBuf::from);
    let candidates = [Some(path), without];
    let is_other = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str());
        !is_code(path)
            && !matches!(ending, Some("json" | "wasm" | "node"))
            && fs::symlink_metadata(root.join(path)).is_ok_and(|data| data.is_file())
    };
    let found = candidates.into_iter().flatten().find(is_other);
    found.map_or(Leads::Nowhere, Leads::ToCode)
}

/// Returns a reason to refuse a file as a whole.
pub(crate) fn whole(file: &Path, what: &str) -> Finding {
    Finding {
        file: file.to_string_lossy().into_owned(),
        line: 1,
        column: 1,
        what: what.to_owned(),
        replacement: SAY_IT.to_owned(),
    }
}
