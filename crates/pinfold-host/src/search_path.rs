//! Where programs are looked for on the host.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_policy::path::Escaped;
use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::within::{Within, steps};

/// Interpreters that are scripts, one after the other (execve(2)), and one more.
const DEEPEST: usize = 6;
/// Bytes of a first line that the kernel reads (`BINPRM_BUF_SIZE`), and more than any reads of them itself.
const LONGEST_LINE: u64 = 4096;

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
        let program = Escaped(&left_out);
        let what = match self.interpreter_within(&left_out) {
            Some(script) if script == left_out => {
                format!("{program} cannot be read, to see what it starts{advice}")
            }
            Some(interpreter) if !self.left_out.has_on_way(&left_out) => format!(
                "{program} begins with #! and {}, where a session may have written{advice}",
                Escaped(&interpreter)
            ),
            _ => format!("PATH leads to {program}, where a session may have written{advice}"),
        };
        io::Error::new(io::ErrorKind::PermissionDenied, what)
    }

    /// Returns the programs of this name. A link may lead to where a sandbox may have written, or through that: then the
    /// sandbox decides where it leads.
    fn files<'n>(&'n self, name: &'n OsStr) -> impl Iterator<Item = PathBuf> + 'n {
        let paths = self.directories().iter().map(move |directory| directory.join(name));
        paths.filter(|path| {
            is_program(path)
                && !self.left_out.has_on_way(path)
                && self.interpreter_within(path).is_none()
        })
    }

    /// Returns what the first line of a script names that a sandbox may have written (execve(2), "Interpreter scripts"): its
    /// interpreter, which may be a script as well, or a path among the words for it. A relative interpreter lies where the
    /// script is started.
    fn interpreter_within(&self, script: &Path) -> Option<PathBuf> {
        if self.left_out.roots().is_empty() {
            return None;
        }
        let mut script = script.to_owned();
        for _ in 0..DEEPEST {
            let line = match first_line(&script) {
                Ok(line) => line?,
                // The kernel needs no right to read it. One of root's is no session's.
                Err(_) => {
                    return fs::metadata(&script).is_ok_and(|it| it.uid() != 0).then_some(script);
                }
            };
            let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let interpreter = Path::new(OsStr::from_bytes(words.next()?)).to_owned();
            if interpreter.is_relative() || self.leads_within(&interpreter) {
                return Some(interpreter);
            }
            if let Some(path) = words.find_map(|word| self.names_within(word)) {
                return Some(path);
            }
            script = interpreter;
        }
        None
    }

    /// Returns the path in a list of paths, or at the end of an address or an assignment, that leads to where a sandbox may
    /// have written.
    fn names_within(&self, value: &[u8]) -> Option<PathBuf> {
        value.split(|byte| *byte == b':').find_map(|part| {
            let start = part.iter().position(|byte| *byte == b'/')?;
            let path = Path::new(OsStr::from_bytes(&part[start..]));
            self.leads_within(path).then(|| path.to_owned())
        })
    }

    fn leads_within(&self, path: &Path) -> bool {
        steps(path).iter().any(|step| self.left_out.has(step))
    }

    /// Checks that a variable of the caller's leads to nothing that a sandbox may have written: settings of engines and clients
    /// name programs.
    ///
    /// # Errors
    /// Returns `PermissionDenied` with the path.
    pub(crate) fn check_variable(&self, name: &str, value: &OsStr) -> io::Result<()> {
        let Some(path) = self.names_within(value.as_bytes()) else { return Ok(()) };
        let what = format!(
            "{name} leads to {}, where a session may have written; set it to something else, or unset it",
            Escaped(&path)
        );
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
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

/// Returns the words of a script's first line, as far as the kernel reads it; `None` for what is no script.
///
/// # Errors
/// Returns why the file cannot be read, unless it is missing.
fn first_line(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    match File::open(path).and_then(|file| file.take(LONGEST_LINE).read_to_end(&mut head)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let line = head.strip_prefix(b"#!").and_then(|line| line.split(|byte| *byte == b'\n').next());
    Ok(line.map(<[u8]>::to_vec))
}

/// Returns whether a path leads to a file that the caller may execute, as execvp(3) looks for one.
fn is_program(path: &Path) -> bool {
    path.is_file() && accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(test)]
mod tests;
