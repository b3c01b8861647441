//! Where programs are looked for on the host.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_policy::path::Escaped;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::within::{Within, steps};

/// The directories of the caller's `PATH` that may be searched.
#[derive(Debug)]
pub(crate) struct SearchPath {
    /// The directories as the caller has them.
    caller: Vec<PathBuf>,
    /// Directories in which a sandbox may have written.
    left_out: Within,
    /// Looked up once they are needed: most commands start nothing.
    directories: OnceLock<Vec<PathBuf>>,
}

impl SearchPath {
    /// Leaves out what lies in these directories.
    pub(crate) fn without(left_out: Vec<PathBuf>) -> Self {
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
        // A relative one leads elsewhere in each directory.
        let caller = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
        let left_out = Within::of(left_out);
        Self { caller: caller.collect(), left_out, directories: OnceLock::new() }
    }

    /// Returns the directories that are left out.
    pub(crate) fn left_out(&self) -> &[PathBuf] {
        self.left_out.roots()
    }

    /// Returns what this leaves out and these, if that is more.
    pub(crate) fn more(&self, directories: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let known = self.left_out.roots();
        let is_new = |one: &&PathBuf| !known.iter().any(|root| one.starts_with(root));
        let new: Vec<PathBuf> = directories.iter().filter(is_new).cloned().collect();
        (!new.is_empty()).then(|| [known.to_vec(), new].concat())
    }

    /// Returns the file of the program of this name, without links.
    ///
    /// # Errors
    /// Returns the errors of [`Self::path_of`].
    pub(crate) fn find(&self, name: &str) -> io::Result<PathBuf> {
        let name = name.as_ref();
        let mut files = self.files(name).filter_map(|path| fs::canonicalize(path).ok());
        files.next().ok_or_else(|| self.is_missing(name, ""))
    }

    /// Returns the path of a program as it is started. A name with a slash says itself where it is.
    ///
    /// # Errors
    /// Returns `NotFound` if there is no such program, and `PermissionDenied` if it is only where a sandbox may have
    /// written.
    pub(crate) fn path_of(&self, name: &OsStr) -> io::Result<PathBuf> {
        if name.as_bytes().contains(&b'/') {
            return Ok(name.into());
        }
        let advice = "; name it by its absolute path to run it all the same";
        self.files(name).next().ok_or_else(|| self.is_missing(name, advice))
    }

    fn is_missing(&self, name: &OsStr, advice: &str) -> io::Error {
        let mut all = self.caller.iter().map(|directory| directory.join(name));
        let Some(left_out) = all.find(|path| is_program(path)) else {
            return io::Error::new(io::ErrorKind::NotFound, "it is not on PATH");
        };
        let what = format!(
            "PATH leads to {}, where a session may have written{advice}",
            Escaped(&left_out)
        );
        io::Error::new(io::ErrorKind::PermissionDenied, what)
    }

    /// Returns the programs of this name. A link may lead to where a sandbox may have written, or through that: then the
    /// sandbox decides where it leads.
    fn files<'n>(&'n self, name: &'n OsStr) -> impl Iterator<Item = PathBuf> + 'n {
        let paths = self.directories().iter().map(move |directory| directory.join(name));
        paths.filter(|path| is_program(path) && !self.left_out.has_on_way(path))
    }

    /// Checks that a variable of the caller's leads to nothing that a sandbox may have written: settings of engines and clients
    /// name programs.
    ///
    /// # Errors
    /// Returns `PermissionDenied` with the path.
    pub(crate) fn check_variable(&self, name: &str, value: &OsStr) -> io::Result<()> {
        // A list of paths, or an address that ends with one.
        for part in value.as_bytes().split(|byte| *byte == b':') {
            let Some(start) = part.iter().position(|byte| *byte == b'/') else { continue };
            let path = Path::new(OsStr::from_bytes(&part[start..]));
            if steps(path).iter().any(|step| self.left_out.has(step)) {
                let what = format!(
                    "{name} leads to {}, where a session may have written; set it to something else, or unset it",
                    Escaped(path)
                );
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
            }
        }
        Ok(())
    }

    /// Returns the value of `PATH` for what is started.
    pub(crate) fn value(&self) -> OsString {
        let directories = self.directories().iter().map(|it| it.as_os_str());
        directories.collect::<Vec<_>>().join(":".as_ref())
    }

    /// Returns the directories of the caller's `PATH` without links and without those in which a sandbox may have written:
    /// an activated environment in a workspace puts such a directory first.
    fn directories(&self) -> &[PathBuf] {
        self.directories.get_or_init(|| {
            let real = self.caller.iter().filter_map(|it| fs::canonicalize(it).ok());
            // `PATH` has no way to say a colon.
            let can_be_said = |directory: &Path| !directory.as_os_str().as_bytes().contains(&b':');
            let mut safe: Vec<PathBuf> = Vec::new();
            for directory in real.filter(|it| can_be_said(it) && !self.left_out.has(it)) {
                if !safe.contains(&directory) {
                    safe.push(directory);
                }
            }
            safe
        })
    }
}

/// Returns whether a path leads to a file that the caller may execute, as execvp(3) looks for one.
fn is_program(path: &Path) -> bool {
    path.is_file() && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests;
