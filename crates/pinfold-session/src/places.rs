//! Where pinfold keeps its files (XDG Base Directory Specification 0.8).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why pinfold does not know where its files are.
#[derive(Debug, Error)]
#[error(
    "the environment has no absolute HOME: set HOME, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME"
)]
pub struct NoHome;

/// The user's directories for pinfold.
#[derive(Debug, Clone)]
pub struct Places {
    /// The user's home on the host.
    pub home: PathBuf,
    /// Settings and secrets.
    pub config: PathBuf,
    /// Audit and sessions.
    pub state: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
}

impl Places {
    /// From the environment.
    ///
    /// # Errors
    /// When there is neither a home nor all of the three.
    pub fn find() -> Result<Self, NoHome> {
        let absolute = |name: &str| -> Option<PathBuf> {
            let value: OsString = std::env::var_os(name)?;
            Some(PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let home = absolute("HOME");
        let place = |variable: &str, fallback: &str| -> Result<PathBuf, NoHome> {
            let base = absolute(variable).or_else(|| Some(home.as_ref()?.join(fallback)));
            Ok(resolved(&base.ok_or(NoHome)?.join("pinfold")))
        };
        Ok(Self {
            config: place("XDG_CONFIG_HOME", ".config")?,
            state: place("XDG_STATE_HOME", ".local/state")?,
            cache: place("XDG_CACHE_HOME", ".cache")?,
            home: home.ok_or(NoHome)?,
        })
    }

    /// Where secrets are kept.
    pub fn secrets(&self) -> PathBuf {
        self.config.join("secrets")
    }

    /// Makes a directory that only the user may enter, with those above it.
    ///
    /// # Errors
    /// What mkdir(2) says, with the path.
    pub fn make_private(path: &Path) -> io::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make {}: {error}", path.display()))
        })
    }
}

/// A path without links, as far as it is there: a boundary opens what it grants without following any.
fn resolved(path: &Path) -> PathBuf {
    for there in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(there), path.strip_prefix(there)) {
            // Joined with nothing it would end with a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}
