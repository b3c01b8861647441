//! What a worker's user lets tasks of a shared queue ask for.

use std::path::Path;

use super::fields::{path, sub_table};
use super::keys;
use crate::document::{FileError, Item, Section};
use crate::glob::Glob;
use crate::path::HostPath;

/// The user's `[tasks]`. What is not listed is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskRules {
    /// Directories that tasks may work in, and below.
    pub repositories: Vec<HostPath>,
    branches: Vec<Glob>,
    /// Identities that they may work as.
    pub identities: Vec<String>,
    /// Groups that they may work for.
    pub groups: Vec<String>,
    /// Directories of sealed files, with the hash of what is in each.
    pub sealed: Vec<(HostPath, String)>,
}

impl TaskRules {
    pub(super) fn read(section: &Section<'_>, home: Option<&HostPath>) -> Result<Self, FileError> {
        let Some(table) = sub_table(section, keys::USER, "tasks")? else {
            return Ok(Self::default());
        };
        let branch = |item: &Item<'_>| {
            // Of the whole name: what a pattern does not begin with it does not mean.
            Glob::new(&format!("/{}", item.text()?)).map_err(|error| item.invalid(error))
        };
        let each = |item: &Item<'_>| item.list()?.iter().map(|item| path(item, home)).collect();
        let sealed = table
            .read("sealed", |item| item.map()?.items().map(|item| sealed(&item, home)).collect());
        Ok(Self {
            repositories: table.read("repositories", each)?.unwrap_or_default(),
            branches: table
                .read("branches", |item| item.list()?.iter().map(branch).collect())?
                .unwrap_or_default(),
            identities: table.read("identities", Item::texts)?.unwrap_or_default(),
            groups: table.read("groups", Item::texts)?.unwrap_or_default(),
            sealed: sealed?.unwrap_or_default(),
        })
    }

    /// Returns whether results may be put on this branch.
    #[must_use]
    pub fn allows_branch(&self, branch: &str) -> bool {
        self.branches.iter().any(|glob| glob.matches(Path::new(branch)))
    }
}

/// Returns a directory, and the hash of what is in it.
fn sealed(item: &Item<'_>, home: Option<&HostPath>) -> Result<(HostPath, String), FileError> {
    let name = item.name();
    let whole = match (name.strip_prefix("~/"), home) {
        (Some(below), Some(home)) => home.join(below),
        _ => HostPath::new(name),
    };
    let digits = item.text()?.strip_prefix("sha256:").unwrap_or_default();
    if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(item.invalid("expected the hash that `pinfold task hash` prints"));
    }
    let whole = whole.map_err(|error| item.invalid(error))?;
    Ok((whole, format!("sha256:{}", digits.to_ascii_lowercase())))
}
