//! Where pinfold keeps its files (XDG Base Directory Specification 0.8).

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use thiserror::Error;

use crate::io::AtPath as _;
use crate::owned::{self, OwnedError};

/// Why pinfold does not use its files.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlacesError {
    /// The environment does not say where they are.
    #[error("the environment has no absolute HOME")]
    NoHome,
    /// Somebody else could change them.
    #[error(transparent)]
    Owned(#[from] OwnedError),
}

impl PlacesError {
    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome => {
                Some("set HOME, or XDG_STATE_HOME, XDG_CONFIG_HOME and XDG_CACHE_HOME".to_owned())
            }
            Self::Owned(error) => error.hint(),
        }
    }
}

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
    /// Finds them by the environment, and checks that only the caller can write to them.
    ///
    /// # Errors
    /// Returns an error when there is neither a home nor all of the three, or when one of them belongs
    /// to somebody else or can be written by others.
    pub fn find() -> Result<Self, PlacesError> {
        let home = absolute_variable("HOME");
        let place = |variable: &str, fallback: &str| -> Result<PathBuf, PlacesError> {
            let base = absolute_variable(variable).or_else(|| Some(home.as_ref()?.join(fallback)));
            Ok(resolved(&base.ok_or(PlacesError::NoHome)?.join(OWN_NAME)))
        };
        let places = Self {
            config: place("XDG_CONFIG_HOME", ".config")?,
            state: place("XDG_STATE_HOME", ".local/state")?,
            cache: place("XDG_CACHE_HOME", ".cache")?,
            home: home.ok_or(PlacesError::NoHome)?,
        };
        owned::check_home(&places.home)?;
        for place in [&places.config, &places.state, &places.cache] {
            owned::check_directory(place)?;
        }
        Ok(places)
    }

    /// Returns where secrets are kept.
    pub fn secrets(&self) -> PathBuf {
        self.config.join("secrets")
    }

    /// Returns the caller's homes without links: the one in force, and the account's.
    pub fn homes(&self) -> Vec<PathBuf> {
        real_homes(Some(self.home.clone()))
    }

    /// Makes a directory that only the user may enter, with those above it.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`, with the path; a directory that is another user's or that others
    /// can write to.
    pub fn make_private(path: &Path) -> io::Result<()> {
        if !path.is_dir() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(path).at("make", path)?;
        }
        // One that was made a moment ago, too: it may lie in a directory of another user's.
        Ok(owned::check_directory(&resolved(path))?)
    }

    /// Writes a file that only the user may read.
    ///
    /// # Errors
    /// Returns the error of opening or writing it, with the path.
    pub fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(path).and_then(|mut file| file.write_all(content));
        written.at("write", path)
    }
}

/// What pinfold's directories are called in each of XDG's.
pub const OWN_NAME: &str = "pinfold";

/// Returns the caller's homes without links: that of the environment, and the account's.
pub fn homes() -> &'static [PathBuf] {
    static HOMES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    HOMES.get_or_init(|| real_homes(absolute_variable("HOME")))
}

fn real_homes(home: Option<PathBuf>) -> Vec<PathBuf> {
    let all = home.into_iter().chain(account_home());
    let mut homes: Vec<PathBuf> = all.filter_map(|home| fs::canonicalize(home).ok()).collect();
    homes.dedup();
    homes
}

/// Returns the home that the account database names (passwd(5)). Accounts of a directory service are not
/// in it, and looking them up would load libraries.
pub fn account_home() -> Option<PathBuf> {
    static HOME: OnceLock<Option<PathBuf>> = OnceLock::new();
    HOME.get_or_init(look_up_home).clone()
}

/// Returns the name that the account database has for the user (passwd(5)).
pub fn account_name() -> Option<String> {
    String::from_utf8(account_field(0)?).ok().filter(|name| !name.is_empty())
}

fn look_up_home() -> Option<PathBuf> {
    let home = PathBuf::from(OsString::from_vec(account_field(5)?));
    Some(home).filter(|home| home.is_absolute() && home.as_os_str().as_bytes() != b"/")
}

/// Returns the home that the account database has for a name, as `~NAME` means it.
pub fn home_of(name: &[u8]) -> Option<PathBuf> {
    let home = account_field_of(|fields| fields.first() == Some(&name), 5)?;
    Some(PathBuf::from(OsString::from_vec(home))).filter(|home| home.is_absolute())
}

/// Returns a field of the user's line in the account database, counted from 0.
fn account_field(index: usize) -> Option<Vec<u8>> {
    let uid = rustix::process::geteuid().as_raw().to_string();
    account_field_of(|fields| fields.get(2) == Some(&uid.as_bytes()), index)
}

fn account_field_of(is_meant: impl Fn(&[&[u8]]) -> bool, index: usize) -> Option<Vec<u8>> {
    let accounts = fs::read("/etc/passwd").ok()?;
    let mut lines = accounts.split(|byte| *byte == b'\n');
    lines
        .find_map(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b':').collect();
            is_meant(&fields).then(|| fields.get(index).copied()).flatten()
        })
        .map(<[u8]>::to_vec)
}

/// Returns a variable that holds an absolute path; the specification has others ignored.
pub fn absolute_variable(name: &str) -> Option<PathBuf> {
    let value: OsString = std::env::var_os(name)?;
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

/// Returns a path without links, as far as it is there: a boundary opens what it grants without
/// following any.
pub fn resolved(path: &Path) -> PathBuf {
    for there in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(there), path.strip_prefix(there)) {
            // Joined with nothing it would end with a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests;
