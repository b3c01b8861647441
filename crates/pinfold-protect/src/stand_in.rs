//! What stands in for hidden environment files: the names of variables for which the session has a
//! placeholder, with that value, so that tools that read `.env` work.
//!
//! Of the original only those names cross, and no value.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_boundary::{Entry, MaskKind, Place};
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_beneath};
use pinfold_policy::authority::{Authority, Effect, Restriction};
use pinfold_policy::path::{HostPath, InsidePath};

/// Where the files lie in the sandbox.
const INSIDE: &str = "/run/pinfold/hidden";
/// What lifts the rule of environment files.
const DOTENV: &str = "dotenv";

/// The directory that the sandbox sees. It is filled when the placeholders are made, which must not
/// be before init is cloned.
#[derive(Debug)]
pub struct StandIns {
    directory: PathBuf,
    /// The hidden files, each with the path in the sandbox of what stands in for it.
    files: HashMap<PathBuf, PathBuf>,
}

impl StandIns {
    /// Makes stand-ins in a session's private directory.
    pub fn new(private: &Path) -> Self {
        Self { directory: private.join("hidden"), files: HashMap::new() }
    }

    /// Makes the directory. It has to be there when the boundary is launched.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o755).create(&self.directory)?;
        fs::set_permissions(&self.directory, fs::Permissions::from_mode(0o755))
    }

    /// Returns the directory's place in the sandbox.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub fn entry(&self) -> Result<Entry, Refusal> {
        let host = HostPath::new(&self.directory).map_err(Refusal::new)?;
        let path = InsidePath::from_static(INSIDE);
        Ok(Entry { path, place: Place::ReadOnly(host) })
    }

    /// Writes a file for each hidden environment file in which one of these `NAME=VALUE` is named.
    ///
    /// # Errors
    /// Returns the error of writing one.
    pub fn fill(&mut self, authority: &Authority, variables: &[Vec<u8>]) -> io::Result<()> {
        let is_dotenv = |hidden: &&Restriction| {
            hidden.effect == Effect::Hide && hidden.reason.opt_in.as_deref() == Some(DOTENV)
        };
        for hidden in authority.restrictions().filter(is_dotenv) {
            let host = hidden.host.as_path();
            // One that cannot be read looks empty.
            let Some(original) = read(host) else { continue };
            let lines = lines(&original, variables);
            if lines.is_empty() || self.files.contains_key(host) {
                continue;
            }
            let name = self.files.len().to_string();
            let path = self.directory.join(&name);
            fs::write(&path, lines)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
            self.files.insert(host.to_owned(), Path::new(INSIDE).join(name));
        }
        Ok(())
    }

    /// Returns what masks a hidden file, if one of these files stands in for it.
    pub fn mask(&self, host: &Path) -> Option<MaskKind> {
        Some(MaskKind::HideWith(self.files.get(host)?.as_os_str().as_bytes().to_vec()))
    }
}

/// Returns the content of a regular file of moderate size, without following links.
pub(crate) fn read(host: &Path) -> Option<Vec<u8>> {
    let above = open_directory(host.parent()?).ok()?;
    Some(read_beneath(above, Path::new(host.file_name()?)).ok()??.bytes)
}

/// Returns a line with the placeholder for each variable that an environment file sets, once.
fn lines(original: &[u8], variables: &[Vec<u8>]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let mut lines = Vec::new();
    for name in original.split(|byte| *byte == b'\n').filter_map(name_of) {
        let is_it = |variable: &&Vec<u8>| {
            variable.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"="))
        };
        if let Some(variable) = variables.iter().find(is_it).filter(|_| seen.insert(name)) {
            lines.extend_from_slice(variable);
            lines.push(b'\n');
        }
    }
    lines
}

/// Returns the name of the variable that a line sets: `NAME=…` or `export NAME=…`.
fn name_of(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii_start();
    let line = match line.strip_prefix(b"export") {
        Some(rest) if rest.starts_with(b" ") || rest.starts_with(b"\t") => rest.trim_ascii_start(),
        _ => line,
    };
    let name = line[..line.iter().position(|byte| *byte == b'=')?].trim_ascii_end();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_name = name.first().is_some_and(|first| !first.is_ascii_digit());
    (is_name && name.iter().all(is_part)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::lines;

    fn of(original: &str) -> String {
        let variables = ["API_KEY=ph-1", "B=ph-2", "B_C=ph=3"].map(|it| it.as_bytes().to_vec());
        String::from_utf8(lines(original.as_bytes(), &variables)).unwrap()
    }

    #[test]
    fn only_names_that_have_a_placeholder_cross() {
        assert_eq!(of("API_KEY=real\nOTHER=secret\nB_C = x\r\n"), "API_KEY=ph-1\nB_C=ph=3\n");
        assert_eq!(
            of("  export API_KEY='real'\nexport\tB=2\nexportB_C=1\n"),
            "API_KEY=ph-1\nB=ph-2\n"
        );
        assert_eq!(of("B=1\nB=2\n"), "B=ph-2\n");
    }

    #[test]
    fn line_that_sets_no_variable_has_no_name() {
        for line in
            ["# API_KEY=x", "API_KEY", "x API_KEY=1", "API_KEY: x", "=B", "", "B\0=1", "b=1"]
        {
            assert_eq!(of(line), "", "{line:?}");
        }
    }
}
