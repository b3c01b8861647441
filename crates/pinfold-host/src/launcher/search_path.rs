//! Where programs are looked for on the host.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::within::Within;

/// The directories of the caller's `PATH` that may be searched.
#[derive(Debug)]
pub(super) struct SearchPath {
    /// Directories in which a sandbox may have written.
    left_out: Within,
    directories: Vec<PathBuf>,
}

impl SearchPath {
    /// Leaves out what lies in these directories.
    pub(super) fn without(left_out: Vec<PathBuf>) -> Self {
        let left_out = Within::of(left_out);
        Self { directories: directories(&left_out), left_out }
    }

    /// Returns what this leaves out and these, if that is more.
    pub(super) fn more(&self, directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let known = self.left_out.roots();
        let is_new = |one: &&PathBuf| !known.iter().any(|root| one.starts_with(root));
        let new: Vec<PathBuf> = directories.iter().filter(is_new).cloned().collect();
        (!new.is_empty()).then(|| [known.to_vec(), new].concat())
    }

    /// Returns the file of the program of this name, without links.
    pub(super) fn find(&self, name: &str) -> Option<PathBuf> {
        self.files(name.as_ref()).map(|(_, real)| real).next()
    }

    /// Returns the path of a program as it is started. A name with a slash says itself where it is.
    pub(super) fn path_of(&self, name: &OsStr) -> Option<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return Some(name.into());
        }
        self.files(name).map(|(path, _)| path).next()
    }

    /// Returns the files of this name, each also without links: a link may lead to where a sandbox may have written.
    fn files<'n>(&'n self, name: &'n OsStr) -> impl Iterator<Item = (PathBuf, PathBuf)> + 'n {
        let paths = self.directories.iter().map(move |directory| directory.join(name));
        let real = paths.filter_map(|path| Some((fs::canonicalize(&path).ok()?, path)));
        let safe = real.filter(|(real, _)| !self.left_out.has(real) && real.is_file());
        safe.map(|(real, path)| (path, real))
    }

    /// Returns the value of `PATH` for what is started.
    pub(super) fn value(&self) -> OsString {
        self.directories.iter().map(|it| it.as_os_str()).collect::<Vec<_>>().join(":".as_ref())
    }
}

/// Returns the directories of the user's `PATH`, without links and without those in which a sandbox may
/// have written: an activated environment in a workspace puts such a directory first.
#[must_use]
pub fn search_path(not_in: &[PathBuf]) -> Vec<PathBuf> {
    directories(&Within::of(not_in.to_vec()))
}

fn directories(left_out: &Within) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let directories = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let real = directories.filter_map(|directory| fs::canonicalize(directory).ok());
    // `PATH` has no way to say a colon.
    let can_be_said = |directory: &Path| !directory.as_os_str().as_bytes().contains(&b':');
    let mut safe: Vec<PathBuf> = Vec::new();
    for directory in real.filter(|it| can_be_said(it) && !left_out.has(it)) {
        if !safe.contains(&directory) {
            safe.push(directory);
        }
    }
    safe
}

/// Returns the program of this name in the user's `PATH`, leaving out directories in which a sandbox may
/// have written.
pub fn find(name: &str, not_in: &[PathBuf]) -> Option<PathBuf> {
    SearchPath::without(not_in.to_vec()).find(name)
}
