//! Hosts that a user has answered `always` about: `approved-hosts.json` next to the user's settings.
//!
//! Each is for one repository, one host and one port.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_host::directories::Places;
use pinfold_policy::network::NetworkRule;
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::Escaped;
use serde::{Deserialize, Serialize};

use crate::saved_list::SavedList;

const NAME: &str = "approved-hosts.json";

/// A host that may be reached from a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedHost {
    /// The git directory of the repository, or the workspace without one.
    pub repository: PathBuf,
    /// The rule, as settings have it.
    pub rule: String,
}

impl std::fmt::Display for SavedHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rule = crate::display::line(self.rule.as_bytes());
        write!(f, "reach {rule} from {}", Escaped(&self.repository))
    }
}

/// The user's hosts.
#[derive(Debug)]
pub struct SavedHosts(SavedList<SavedHost>);

impl SavedHosts {
    /// Returns the user's.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self(SavedList::new(places, NAME))
    }

    /// Returns all of them.
    ///
    /// # Errors
    /// Returns the error of reading; a file that cannot be read is not taken for none.
    pub fn all(&self) -> io::Result<Vec<SavedHost>> {
        self.0.all()
    }

    /// Returns the rules of one repository.
    ///
    /// # Errors
    /// Returns the errors of [`Self::all`], or that a rule has a mistake.
    pub fn rules_of(&self, repository: &Path) -> io::Result<Vec<Valued<NetworkRule>>> {
        let all = self.all()?.into_iter().filter(|host| host.repository == repository);
        let rule = |host: SavedHost| {
            let rule = host.rule.parse::<NetworkRule>();
            let rule = rule.map_err(|error| io::Error::other(format!("{NAME}: {error}")))?;
            Ok(Valued::new(rule, Origin::Flag { name: NAME }))
        };
        all.map(rule).collect()
    }

    /// Adds one.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn add(&self, host: &SavedHost) -> io::Result<()> {
        self.0.add(host)
    }

    /// Takes one away.
    ///
    /// # Errors
    /// Returns the error of reading and writing.
    pub fn remove(&self, host: &SavedHost) -> io::Result<()> {
        self.0.remove(host).map(drop)
    }
}
