//! The modules of a kernel, in the order in which they are to be loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::elf::Elf;
use crate::read::{ReadError, read};
use crate::unpack::{UnpackError, unpack};

/// What init needs that some kernels have built in and others as modules: the byte channel, the tree, and what
/// the namespace boundary needs within the guest.
pub const WANTED: [&str; 6] =
    ["virtio_pci", "virtio_console", "virtiofs", "overlay", "nf_tables", "nft_tproxy"];

/// Files below a directory of modules. Debian's 6.12 has 4200.
const MOST_FILES: usize = 50_000;
const DEEPEST: usize = 16;
/// The largest module of Debian's, unpacked, has 9 MiB.
const LARGEST: u64 = 64 << 20;
/// Modules that are loaded in all.
const MOST: usize = 64;

/// Why modules cannot be put together.
#[derive(Debug, Error)]
pub enum ModuleError {
    /// The kernel has no such part.
    #[error("the kernel has no {name}, neither built in nor as a module below {directory}")]
    Missing {
        name: String,
        /// Where the modules are.
        directory: PathBuf,
    },
    /// A directory cannot be listed.
    #[error("cannot list {path}: {source}")]
    List {
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// There are more files than any kernel has modules.
    #[error("{0} has more files, or is deeper, than a directory of modules")]
    TooMany(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A module cannot be unpacked.
    #[error("cannot unpack {path}: {source}")]
    Unpack { path: PathBuf, source: UnpackError },
    /// A file is not a module.
    #[error("{0} is not a kernel module for a machine of 64 bits")]
    NotAModule(PathBuf),
    /// Modules need each other in a circle, or too many of them.
    #[error("modules need each other in a circle, or more than {MOST} of them, at {0}")]
    Depends(String),
}

/// A module that is to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    name: String,
    bytes: Vec<u8>,
}

impl Module {
    /// Returns its name: letters, digits and `_`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file, not compressed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The modules of one kernel (`/lib/modules/RELEASE`).
#[derive(Debug)]
pub struct Modules {
    directory: PathBuf,
    built_in: BTreeSet<String>,
    files: BTreeMap<String, PathBuf>,
}

impl Modules {
    /// Lists the modules below a directory. `modules.dep` is not needed: an unpacked package has none, because the
    /// package's script makes it when it is installed.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be listed, or is not one of modules.
    pub fn list(directory: &Path) -> Result<Self, ModuleError> {
        let list = read(&directory.join("modules.builtin"), LARGEST)?;
        let list = String::from_utf8_lossy(&list);
        let built_in = list.lines().filter_map(|line| name_of(line.rsplit('/').next()?));
        let mut files = BTreeMap::new();
        let (mut below, mut count) = (vec![(directory.join("kernel"), 0)], 0);
        while let Some((path, depth)) = below.pop() {
            let failed = |source| ModuleError::List { path: path.clone(), source };
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                // A link is neither: it is not followed.
                let kind = entry.file_type().map_err(failed)?;
                count += 1;
                if count > MOST_FILES || depth > DEEPEST {
                    return Err(ModuleError::TooMany(directory.into()));
                }
                if kind.is_dir() {
                    below.push((entry.path(), depth + 1));
                } else if kind.is_file()
                    && let Some(name) = entry.file_name().to_str().and_then(name_of)
                {
                    files.insert(name, entry.path());
                }
            }
        }
        Ok(Self { directory: directory.into(), built_in: built_in.collect(), files })
    }

    /// Returns these modules and what they need, each after what it needs. What is built in is left out.
    ///
    /// # Errors
    /// Returns an error if one is missing or invalid.
    pub fn in_order(&self, wanted: &[&str]) -> Result<Vec<Module>, ModuleError> {
        let mut ordered = Vec::new();
        for name in wanted {
            self.add(name, &mut Vec::new(), &mut ordered)?;
        }
        Ok(ordered)
    }

    /// Returns the module of a name, or else the one that offers what is called so. An algorithm's plain implementation
    /// is called `NAME_generic` (crypto/Makefile).
    fn file_for(&self, name: &str) -> Option<&str> {
        let name = name.replace('-', "_");
        let found = [name.clone(), format!("{name}_generic")];
        found.iter().find_map(|name| Some(self.files.get_key_value(name)?.0.as_str()))
    }

    /// Adds a module after what it needs. `above` are those that need it.
    fn add(
        &self,
        name: &str,
        above: &mut Vec<String>,
        ordered: &mut Vec<Module>,
    ) -> Result<(), ModuleError> {
        let name = name.replace('-', "_");
        if self.built_in.contains(&name) || ordered.iter().any(|module| module.name == name) {
            return Ok(());
        }
        if above.contains(&name) || ordered.len() + above.len() >= MOST {
            return Err(ModuleError::Depends(name));
        }
        let Some(path) = self.files.get(&name) else {
            return Err(ModuleError::Missing { name, directory: self.directory.clone() });
        };
        let unpacked = unpack(read(path, LARGEST)?, LARGEST)
            .map_err(|source| ModuleError::Unpack { path: path.clone(), source })?;
        let needs = needs(&unpacked).ok_or_else(|| ModuleError::NotAModule(path.clone()))?;
        above.push(name.clone());
        let there = needs.preferred.iter().filter_map(|preferred| self.file_for(preferred));
        let there =
            there.filter(|name| !above.iter().any(|above| above == name)).collect::<Vec<_>>();
        for need in needs.required.iter().map(String::as_str).chain(there) {
            self.add(need, above, ordered)?;
        }
        above.pop();
        ordered.push(Module { name, bytes: unpacked });
        Ok(())
    }
}

/// What a module says of others that are to be loaded before it.
#[derive(Debug, Default)]
pub struct Needs {
    /// Those whose code it calls.
    pub required: Vec<String>,
    /// Those that it looks for when it starts, if there are any: by their names, or by what they offer.
    pub preferred: Vec<String>,
}

/// Returns the name of a module from that of its file: `virtio-rng.ko.xz` is `virtio_rng`.
fn name_of(file: &str) -> Option<String> {
    let (name, end) = file.split_once(".ko")?;
    let is_name = !name.is_empty()
        && name.len() < 100
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    let is_module = matches!(end, "" | ".xz" | ".zst" | ".gz");
    (is_name && is_module).then(|| name.replace('-', "_"))
}

/// Returns what a module says it needs (`depends=` and `softdep=` of the section `.modinfo`, modinfo(8) and modprobe.d(5)), or
/// `None` if the file is not a module.
#[must_use]
pub fn needs(module: &[u8]) -> Option<Needs> {
    let information = Elf::new(module)?.section(".modinfo")?;
    let (mut required, mut preferred) = (None, Vec::new());
    for line in information.split(|byte| *byte == 0) {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        if let Some(names) = line.strip_prefix("depends=") {
            let names = names.split(',').filter(|name| !name.is_empty());
            required = Some(names.map(str::to_owned).collect());
        } else if let Some(words) = line.strip_prefix("softdep=") {
            let before = words.split_once("pre:").map_or("", |(_, words)| words);
            let names = before.split_whitespace().take_while(|word| !word.ends_with(':'));
            preferred.extend(names.map(str::to_owned));
        }
    }
    Some(Needs { required: required?, preferred })
}

#[cfg(test)]
mod tests;
