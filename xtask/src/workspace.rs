//! The packages of the workspace, and which of them a change concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::cargo::{command, output};

/// Files outside every package that are compiled into one, by directory.
const EMBEDDED: &[(&str, &[&str])] = &[
    ("agents/images", &["pinfold-image"]),
    ("agents/recipes", &["pinfold-session"]),
    ("agents", &["pinfold-policy"]),
    ("examples", &["pinfold"]),
    ("integrations", &["pinfold-bundle"]),
    ("schema", &["pinfold", "pinfold-policy"]),
];

/// Files that concern every package.
const COMMON: &[&str] = &[".cargo", "Cargo.lock", "Cargo.toml", "clippy.toml"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
}

/// The packages of this workspace.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    /// The directory of each package, relative to the root.
    directories: BTreeMap<String, PathBuf>,
}

impl Workspace {
    /// Asks cargo for the workspace around the current directory.
    ///
    /// # Errors
    /// Returns the error of `cargo metadata`.
    pub(crate) fn load() -> Result<Self, Box<dyn Error>> {
        let words = ["metadata", "--no-deps", "--format-version", "1", "--locked"];
        Self::parse(&output(command("cargo").args(words))?)
    }

    fn parse(metadata: &str) -> Result<Self, Box<dyn Error>> {
        let metadata: Metadata = serde_json::from_str(metadata)?;
        let mut directories = BTreeMap::new();
        for package in metadata.packages {
            let directory = package
                .manifest_path
                .parent()
                .unwrap_or(Path::new(""))
                .strip_prefix(&metadata.workspace_root)?
                .to_owned();
            directories.insert(package.name, directory);
        }
        Ok(Self { root: metadata.workspace_root, directories })
    }

    /// Returns the directory of the workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns whether a package of this name exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.directories.contains_key(name)
    }

    /// Returns the packages that these files, relative to the root, are part of.
    pub(crate) fn owners<'f>(&self, files: impl Iterator<Item = &'f Path>) -> BTreeSet<String> {
        let mut owners = BTreeSet::new();
        for file in files {
            if COMMON.iter().any(|common| file.starts_with(common)) {
                return self.directories.keys().cloned().collect();
            }
            let package = self.directories.iter().find(|(_, at)| file.starts_with(at));
            let embedded = EMBEDDED.iter().find(|(at, _)| file.starts_with(at));
            match (package, embedded) {
                (Some((name, _)), _) => drop(owners.insert(name.clone())),
                (None, Some((_, names))) => {
                    owners.extend(names.iter().map(|name| (*name).to_owned()));
                }
                (None, None) => {}
            }
        }
        owners
    }
}

#[cfg(test)]
mod tests;
