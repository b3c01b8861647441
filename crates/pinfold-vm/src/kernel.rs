//! Where a kernel is.

mod package;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

pub use self::package::{Fetched, PackageError};
use crate::architecture::Architecture;
use crate::modules::{ModuleError, Modules};
use crate::read::{ReadError, open, read};
use crate::vmlinux::{ImageError, vmlinux};

/// The most that an image has. Debian's for x86-64 have 12 MiB, and those for aarch64, which are not compressed, 31.
const LARGEST: u64 = 128 << 20;

/// A kernel with its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    release: String,
    image: PathBuf,
    modules: PathBuf,
}

/// No kernel was found.
#[derive(Debug, Error)]
#[error("no kernel for the machine{tried}")]
pub struct NoKernel {
    /// Each place, and what is wrong with it.
    tried: String,
}

impl Kernel {
    /// Finds a kernel below a directory that has what a package of a distribution has: `boot/vmlinuz-RELEASE` or
    /// `lib/modules/RELEASE/vmlinuz`, and `lib/modules/RELEASE`. Of several, the one of the newest release.
    ///
    /// # Errors
    /// Returns an error that says which places were tried.
    pub fn below(root: &Path) -> Result<Self, NoKernel> {
        let mut tried = String::new();
        let mut found: Vec<Self> = Vec::new();
        for modules in ["lib/modules", "usr/lib/modules"].map(|path| root.join(path)) {
            let entries = match std::fs::read_dir(&modules) {
                Ok(entries) => entries,
                Err(error) => {
                    let _ = write!(tried, "; cannot list {}: {error}", modules.display());
                    continue;
                }
            };
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            found
                .extend(names.filter_map(|release| Self::of(root, &modules, &release, &mut tried)));
        }
        found.sort_by_key(|kernel| numbers(&kernel.release));
        found.pop().ok_or(NoKernel { tried })
    }

    /// Finds the kernel that runs on this machine, if its image may be read. Ubuntu lets root alone read it.
    ///
    /// # Errors
    /// Returns an error that says which places were tried.
    pub fn of_host() -> Result<Self, NoKernel> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut tried = String::new();
        let found = Self::of(Path::new("/"), Path::new("/lib/modules"), &release, &mut tried);
        found.ok_or(NoKernel { tried })
    }

    fn of(root: &Path, modules: &Path, release: &str, tried: &mut String) -> Option<Self> {
        let modules = modules.join(release);
        let images = [root.join(format!("boot/vmlinuz-{release}")), modules.join("vmlinuz")];
        for image in images {
            // Whether it can be read is known only by doing it.
            match open(&image) {
                Ok(_) => return Some(Self { release: release.to_owned(), image, modules }),
                Err(error) => {
                    let _ = write!(tried, "; cannot read {}: {error}", image.display());
                }
            }
        }
        None
    }

    /// Returns its release, such as `6.12.95+deb12-cloud-amd64`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns where its image is.
    pub(crate) fn image(&self) -> &Path {
        &self.image
    }

    /// Returns where its modules are.
    pub(crate) fn module_directory(&self) -> &Path {
        &self.modules
    }

    /// Returns the uncompressed kernel.
    ///
    /// # Errors
    /// Returns an error if the image cannot be read, or is not a kernel that such a machine can boot.
    pub fn vmlinux(&self, architecture: &Architecture) -> Result<Vec<u8>, KernelError> {
        let image = vmlinux(read(&self.image, LARGEST)?, architecture);
        image.map_err(|source| KernelError::Image { path: self.image.clone(), source })
    }

    /// Lists its modules.
    ///
    /// # Errors
    /// Returns the errors of [`Modules::list`].
    pub fn modules(&self) -> Result<Modules, ModuleError> {
        Modules::list(&self.modules)
    }
}

/// Why a kernel cannot be used.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Its image cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its image is not one that can be booted.
    #[error("{path}: {source}")]
    Image {
        path: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
}

/// Returns the numbers in a release, by which one is newer than another.
fn numbers(release: &str) -> Vec<u64> {
    let numbers = release.split(|character: char| !character.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests;
