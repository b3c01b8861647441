//! Rules that a user has answered `always` with: `approvals.json` next to the user's settings.
//!
//! One allows the same command in the same directory of the same repository and, where it goes to a
//! remote, to the same remote: what was shown, and nothing more.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use pinfold_host::directories::Places;
use pinfold_host::owned;
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::display::command_line;

/// A command that runs without asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRule {
    /// The git directory of the repository, or the workspace without one.
    pub repository: PathBuf,
    pub executable: String,
    /// All of its arguments.
    pub args: Vec<String>,
    /// The working directory on the host.
    pub cwd: PathBuf,
    /// Where git goes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The references of the remote that a push with it may move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
}

impl SavedRule {
    /// Returns whether this allows what another would: the same, and no other reference.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let is_known = |reference: &String| self.references.contains(reference);
        let references = self.references.clone();
        other.references.iter().all(is_known) && *self == Self { references, ..other.clone() }
    }
}

impl std::fmt::Display for SavedRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = std::iter::once(self.executable.as_bytes());
        let line = command_line(words.chain(self.args.iter().map(String::as_bytes)));
        write!(f, "{line} in {}", pinfold_policy::path::Escaped(&self.cwd))?;
        if let Some(remote) = &self.remote {
            write!(f, " to {}", crate::display::line(remote.as_bytes()))?;
        }
        let references = self.references.iter().map(String::as_bytes);
        if self.references.is_empty() {
            Ok(())
        } else {
            write!(f, ", {}", command_line(references))
        }
    }
}

/// The user's rules.
#[derive(Debug)]
pub struct SavedRules {
    path: PathBuf,
    directory: PathBuf,
}

impl SavedRules {
    /// Returns the user's.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self { path: places.config.join("approvals.json"), directory: places.config.clone() }
    }

    /// Returns all of them.
    ///
    /// # Errors
    /// Returns the error of reading; a file that cannot be read is not taken for none.
    pub fn all(&self) -> io::Result<Vec<SavedRule>> {
        let named = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
        };
        match owned::read(&self.path)? {
            // A live session may have put an empty one where a link leads to nothing.
            Some(bytes) if bytes.is_empty() => Ok(Vec::new()),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| named(error.into())),
            None => Ok(Vec::new()),
        }
    }

    /// Adds one.
    ///
    /// # Errors
    /// Returns the error of writing.
    pub fn add(&self, rule: &SavedRule) -> io::Result<()> {
        self.change(|rules| {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        })
    }

    /// Takes one away; whether it was there.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn remove(&self, rule: &SavedRule) -> io::Result<bool> {
        let mut was_there = false;
        self.change(|rules| {
            let before = rules.len();
            rules.retain(|known| known != rule);
            was_there = rules.len() < before;
        })?;
        Ok(was_there)
    }

    /// Changes them under a lock: two sessions may each add one.
    fn change(&self, change: impl FnOnce(&mut Vec<SavedRule>)) -> io::Result<()> {
        Places::make_private(&self.directory)?;
        let lock = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(lock)?;
        rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
        let mut rules = self.all()?;
        change(&mut rules);
        let new = self.path.with_extension(format!("new-{}", std::process::id()));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(&rules)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.directory)?.sync_all()
    }
}
