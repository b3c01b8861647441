//! The lock list of an agent: which packages, with which digests, and which commands they give.
//!
//! The file (`agents/recipes/<name>.json`) is data that a user may write too, so reading it is
//! strict: an unknown key, a path that leaves the layer or two entries for one place are errors.
//!
//! ```json
//! { "format": 1, "name": "codex", "version": "0.169.0",
//!   "packages": [
//!     { "path": "node_modules/@openai/codex", "name": "@openai/codex", "version": "0.169.0",
//!       "integrity": "sha512-…", "size": 4993, "cpu": "x64", "libc": "glibc",
//!       "only": ["bin"] } ],
//!   "bin": [ { "command": "codex", "path": "node_modules/@openai/codex/bin/codex.js" } ] }
//! ```
//! `size` (bytes of the tarball), `cpu` (`x64`, `arm64`), `libc` (`glibc`, `musl`) and `only`
//! (the files or directories of the package that are wanted) may be left out.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::digest::{Integrity, IntegrityError, LayerId};
use crate::names::{LayerPath, NameError, PackageName, PackageVersion, Registry, Word};
use crate::plain::Plain;
use crate::platform::{Cpu, Libc, Platform};
use crate::steps::Job;

/// The version of the file format that this build reads and writes.
pub const FORMAT: u32 = 1;

/// Part of every layer's name: raised when unpacking the same recipe gives another result.
const LAYOUT: &str = "pinfold layer 1\n";

/// The largest recipe file that is read, in bytes; pi's, with 170 packages, has 40 kB.
const LARGEST_FILE: usize = 4 * 1024 * 1024;

/// The most packages of one recipe.
const MOST_PACKAGES: usize = 10_000;

/// A checked lock list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    name: Word,
    version: PackageVersion,
    packages: Vec<Package>,
    bin: Vec<Bin>,
}

/// One package and the place it is unpacked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// The directory inside the layer.
    pub path: LayerPath,
    /// Its name in the registry.
    pub name: PackageName,
    /// Its exact version.
    pub version: PackageVersion,
    /// What its tarball must be.
    pub integrity: Integrity,
    /// Bytes of the tarball, when known: for progress and as a bound of the download.
    pub size: Option<u64>,
    /// Wanted on this processor alone.
    pub cpu: Option<Cpu>,
    /// Wanted with this C library alone.
    pub libc: Option<Libc>,
    /// The files and directories that are unpacked; empty: all.
    pub only: Vec<LayerPath>,
}

/// A command that the layer puts on `PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bin {
    /// What a user types.
    pub command: Word,
    /// The file it starts.
    pub path: LayerPath,
    /// Wanted on this processor alone.
    pub cpu: Option<Cpu>,
    /// Wanted with this C library alone.
    pub libc: Option<Libc>,
}

/// Why a recipe was refused.
#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    /// Not the JSON of a recipe.
    #[error("not a recipe: {}", Plain(.0))]
    Json(#[from] serde_json::Error),
    /// Larger than any recipe.
    #[error("the recipe has {0} bytes; at most {LARGEST_FILE} are read")]
    TooLarge(usize),
    /// Written for another pinfold.
    #[error("recipe format {0} is not known here: this pinfold reads format {FORMAT}")]
    Format(u32),
    /// A bad name, version or path.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A bad digest.
    #[error("package {}: {source}", Plain(package))]
    Integrity {
        /// The package as written.
        package: String,
        /// What is wrong.
        source: IntegrityError,
    },
    /// More packages than a recipe may have.
    #[error("the recipe has {0} packages; at most {MOST_PACKAGES} are allowed")]
    TooMany(usize),
    /// No package at all.
    #[error("the recipe has no packages")]
    Empty,
    /// A package outside `node_modules`, where it could hide `bin`.
    #[error("package path `{0}` must begin with `node_modules/`")]
    Outside(LayerPath),
    /// Two packages in one directory.
    #[error("two packages are written to `{0}`")]
    SamePath(LayerPath),
    /// Two files for one command.
    #[error("command `{command}` is given twice for {platform}")]
    SameCommand {
        command: Word,
        /// Where both apply.
        platform: Platform,
    },
    /// A command whose file no package brings.
    #[error("command `{command}` starts `{path}`, which is in no package of the recipe")]
    NoSuchFile { command: Word, path: LayerPath },
    /// The agent is not published for this machine.
    #[error("{agent} {version} gives no command on {platform}")]
    Platform { agent: Word, version: PackageVersion, platform: Platform },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecipe {
    format: u32,
    name: String,
    version: String,
    packages: Vec<RawPackage>,
    bin: Vec<RawBin>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPackage {
    path: String,
    name: String,
    version: String,
    integrity: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu: Option<Cpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    libc: Option<Libc>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBin {
    command: String,
    path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu: Option<Cpu>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    libc: Option<Libc>,
}

impl Recipe {
    /// Reads a recipe file.
    ///
    /// # Errors
    /// Returns an error for anything that is not a recipe this build understands in full.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecipeError> {
        if bytes.len() > LARGEST_FILE {
            return Err(RecipeError::TooLarge(bytes.len()));
        }
        let raw: RawRecipe = serde_json::from_slice(bytes)?;
        if raw.format != FORMAT {
            return Err(RecipeError::Format(raw.format));
        }
        let name = Word::parse(&raw.name)?;
        let version = PackageVersion::parse(&raw.version)?;
        let packages =
            raw.packages.into_iter().map(Package::from_raw).collect::<Result<Vec<_>, _>>()?;
        let bin = raw.bin.into_iter().map(Bin::from_raw).collect::<Result<Vec<_>, _>>()?;
        Self::new(name, version, packages, bin)
    }

    /// Puts a recipe together and checks that its parts fit each other.
    ///
    /// # Errors
    /// Returns an error for two entries for one place, a package outside `node_modules`, a command without a file.
    pub fn new(
        name: Word,
        version: PackageVersion,
        mut packages: Vec<Package>,
        mut bin: Vec<Bin>,
    ) -> Result<Self, RecipeError> {
        packages.sort_by(|a, b| a.path.cmp(&b.path));
        bin.sort_by(|a, b| (&a.command, &a.path).cmp(&(&b.command, &b.path)));
        check_packages(&packages)?;
        for platform in Platform::ALL {
            check_commands(&packages, &bin, platform)?;
        }
        Ok(Self { name, version, packages, bin })
    }

    /// Returns what is left of the recipe on one platform, without conditions.
    ///
    /// # Errors
    /// Returns an error if the agent gives no command there.
    pub fn for_platform(&self, platform: Platform) -> Result<Self, RecipeError> {
        let packages = self
            .packages
            .iter()
            .filter(|p| platform.matches(p.cpu, p.libc))
            .map(|p| Package { cpu: None, libc: None, ..p.clone() });
        let bin: Vec<_> = self
            .bin
            .iter()
            .filter(|b| platform.matches(b.cpu, b.libc))
            .map(|b| Bin { cpu: None, libc: None, ..b.clone() })
            .collect();
        // A layer without the agent's own command is of no use, although node may be in it.
        if !bin.iter().any(|b| b.command == self.name) {
            return Err(RecipeError::Platform {
                agent: self.name.clone(),
                version: self.version.clone(),
                platform,
            });
        }
        Self::new(self.name.clone(), self.version.clone(), packages.collect(), bin)
    }

    /// Returns the canonical content, which is also how the files are written: sorted, one line for each
    /// package and command, defaults left out.
    ///
    /// # Errors
    /// Returns no error in practice: every field is text or a number.
    pub fn to_bytes(&self) -> Result<Vec<u8>, RecipeError> {
        let packages = lines(self.packages.iter().map(Package::to_raw))?;
        let bin = lines(self.bin.iter().map(Bin::to_raw))?;
        let (name, version) = (self.name.as_str(), self.version.as_str());
        Ok(format!(
            "{{\n  \"format\": {FORMAT},\n  \"name\": \"{name}\",\n  \"version\": \"{version}\",\n  \
             \"packages\": [\n    {packages}\n  ],\n  \"bin\": [\n    {bin}\n  ]\n}}\n"
        )
        .into_bytes())
    }

    /// Returns the name of the layer that this recipe gives.
    ///
    /// # Errors
    /// Returns the errors of [`Self::to_bytes`].
    pub fn hash(&self) -> Result<LayerId, RecipeError> {
        let mut canonical = LAYOUT.as_bytes().to_vec();
        canonical.extend(self.to_bytes()?);
        Ok(LayerId::of(&canonical))
    }

    /// Returns the agent's name.
    #[must_use]
    pub fn name(&self) -> &Word {
        &self.name
    }

    /// Returns the agent's version.
    #[must_use]
    pub fn version(&self) -> &PackageVersion {
        &self.version
    }

    /// Returns the packages, sorted by path.
    #[must_use]
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// Returns the commands, sorted by name.
    #[must_use]
    pub fn bin(&self) -> &[Bin] {
        &self.bin
    }

    /// Returns the downloads that this recipe needs; two packages with one tarball share a download.
    #[must_use]
    pub fn jobs(&self, registry: &Registry, tarballs: &Path) -> Vec<Job> {
        let mut seen = BTreeSet::new();
        let mut jobs: Vec<_> = self
            .packages
            .iter()
            .filter(|package| seen.insert(package.integrity))
            .map(|package| Job {
                package: format!("{}@{}", package.name, package.version),
                url: registry.tarball(&package.name, &package.version),
                integrity: package.integrity,
                size: package.size,
                file: tarballs.join(package.integrity.file_name()),
            })
            .collect();
        // The largest first: the last one running is then a small one.
        jobs.sort_by_key(|job| std::cmp::Reverse(job.size));
        jobs
    }
}

impl Package {
    fn from_raw(raw: RawPackage) -> Result<Self, RecipeError> {
        let integrity = Integrity::parse(&raw.integrity).map_err(|source| {
            RecipeError::Integrity { package: raw.name.chars().take(120).collect(), source }
        })?;
        Ok(Self {
            path: LayerPath::parse(&raw.path)?,
            name: PackageName::parse(&raw.name)?,
            version: PackageVersion::parse(&raw.version)?,
            integrity,
            size: raw.size,
            cpu: raw.cpu,
            libc: raw.libc,
            only: raw.only.iter().map(|p| LayerPath::parse(p)).collect::<Result<_, _>>()?,
        })
    }

    fn to_raw(&self) -> RawPackage {
        RawPackage {
            path: self.path.to_string(),
            name: self.name.to_string(),
            version: self.version.to_string(),
            integrity: self.integrity.to_string(),
            size: self.size,
            cpu: self.cpu,
            libc: self.libc,
            only: self.only.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Bin {
    fn from_raw(raw: RawBin) -> Result<Self, RecipeError> {
        Ok(Self {
            command: Word::parse(&raw.command)?,
            path: LayerPath::parse(&raw.path)?,
            cpu: raw.cpu,
            libc: raw.libc,
        })
    }

    fn to_raw(&self) -> RawBin {
        RawBin {
            command: self.command.to_string(),
            path: self.path.to_string(),
            cpu: self.cpu,
            libc: self.libc,
        }
    }
}

fn lines<T: Serialize>(entries: impl Iterator<Item = T>) -> Result<String, RecipeError> {
    let lines: Result<Vec<_>, _> = entries.map(|entry| serde_json::to_string(&entry)).collect();
    Ok(lines?.join(",\n    "))
}

fn check_packages(packages: &[Package]) -> Result<(), RecipeError> {
    if packages.is_empty() {
        return Err(RecipeError::Empty);
    }
    if packages.len() > MOST_PACKAGES {
        return Err(RecipeError::TooMany(packages.len()));
    }
    let mut seen = BTreeSet::new();
    for package in packages {
        if package.path.first_part() != "node_modules" || package.path.as_str() == "node_modules" {
            return Err(RecipeError::Outside(package.path.clone()));
        }
        if !seen.insert(&package.path) {
            return Err(RecipeError::SamePath(package.path.clone()));
        }
    }
    Ok(())
}

fn check_commands(
    packages: &[Package],
    bin: &[Bin],
    platform: Platform,
) -> Result<(), RecipeError> {
    let mut seen = BTreeSet::new();
    for bin in bin.iter().filter(|bin| platform.matches(bin.cpu, bin.libc)) {
        if !seen.insert(&bin.command) {
            return Err(RecipeError::SameCommand { command: bin.command.clone(), platform });
        }
        let brings =
            |p: &&Package| platform.matches(p.cpu, p.libc) && bin.path.below(&p.path).is_some();
        if !packages.iter().any(|p| brings(&p)) {
            let (command, path) = (bin.command.clone(), bin.path.clone());
            return Err(RecipeError::NoSuchFile { command, path });
        }
    }
    Ok(())
}
