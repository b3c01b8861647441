//! What a guest boots: the uncompressed kernel and the initramfs, made once for each kernel and executable.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::architecture::Architecture;
use crate::elf;
use crate::initramfs::initramfs;
use crate::kept;
use crate::kernel::{Kernel, KernelError};
use crate::modules::{ModuleError, WANTED};
use crate::read::{ReadError, read};

/// The largest executable. An unstripped one has 190 MB.
const LARGEST: u64 = 512 << 20;
const KERNEL: &str = "vmlinux";
const INITRAMFS: &str = "initramfs";
/// What these were like when they were made.
const STATE: &str = "state";
const LARGEST_STATE: u64 = 4096;

/// Why there is nothing to boot.
#[derive(Debug, Error)]
pub enum PreparedError {
    /// The kernel cannot be used.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Its modules cannot be used.
    #[error(transparent)]
    Modules(#[from] ModuleError),
    /// The executable cannot be read.
    #[error(transparent)]
    Init(#[from] ReadError),
    /// Files cannot be kept.
    #[error("cannot keep what machines boot in {path}: {source}")]
    Cache {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Files that a guest boots.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
}

impl Prepared {
    /// Finds them in a directory, or makes them there. Several processes may do so at once.
    ///
    /// # Errors
    /// Returns an error if one of the sources cannot be used, or the files cannot be written.
    pub(crate) fn find(
        directory: &Path,
        kernel: &Kernel,
        init: &Path,
    ) -> Result<Self, PreparedError> {
        let failed = |source| PreparedError::Cache { path: directory.into(), source };
        let key = key(kernel, init).map_err(failed)?;
        let place = directory.join(&key);
        kept::make_directory(directory).map_err(failed)?;
        if is_whole(&place, &[KERNEL, INITRAMFS]) {
            kept::mark_used(&place);
        } else {
            let modules = kernel.modules()?.in_order(&WANTED)?;
            let init = elf::without_sections(read(init, LARGEST)?);
            let archive = initramfs(&init, &modules);
            let image = kernel.vmlinux(Architecture::HOST)?;
            keep(directory, &place, &[(KERNEL, &image), (INITRAMFS, &archive)]).map_err(failed)?;
        }
        Ok(Self { kernel: place.join(KERNEL), initramfs: place.join(INITRAMFS) })
    }
}

/// Returns a name that differs for each kernel and executable.
fn key(kernel: &Kernel, init: &Path) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for path in [kernel.image(), kernel.module_directory(), init] {
        let file = fs::metadata(path)?;
        path.hash(&mut hasher);
        (file.dev(), file.ino(), file.size()).hash(&mut hasher);
        (file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()).hash(&mut hasher);
    }
    WANTED.hash(&mut hasher);
    Ok(format!("{}-{:016x}", kernel.release(), hasher.finish()))
}

/// Returns whether a directory has these files, and nothing was written to them since they were made: that changes their
/// times, and their content was on the disk before they had their name.
fn is_whole(place: &Path, names: &[&str]) -> bool {
    let is_directory = fs::symlink_metadata(place).is_ok_and(|about| about.is_dir());
    is_directory
        && state_of(place, names).is_ok_and(|state| {
            read(&place.join(STATE), LARGEST_STATE).is_ok_and(|made| made == state.as_bytes())
        })
}

/// Returns what changes when files are written to or replaced.
///
/// # Errors
/// Returns the error of lstat(2), or that one is no regular file.
fn state_of(directory: &Path, names: &[&str]) -> io::Result<String> {
    let mut state = String::new();
    for name in names {
        let about = fs::symlink_metadata(directory.join(name))?;
        if !about.is_file() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let numbers = [about.size(), about.ino(), about.mode().into()];
        let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()];
        let _ = writeln!(state, "{name} {numbers:?} {times:?}");
    }
    Ok(state)
}

/// Writes files to a new directory of this name, in place of what is not whole there.
fn keep(directory: &Path, place: &Path, files: &[(&str, &[u8])]) -> io::Result<()> {
    let names = files.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let unfinished = tempfile::Builder::new().prefix(kept::UNFINISHED).tempdir_in(directory)?;
    let written = files.iter().try_for_each(|(name, content)| {
        let path = unfinished.path().join(name);
        let mut file = File::options().write(true).create_new(true).open(path)?;
        // QEMU is another user where the caller is root. The directory is closed to others.
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(content)?;
        file.sync_all()
    });
    let named = written.and_then(|()| {
        let state = state_of(unfinished.path(), &names)?;
        fs::write(unfinished.path().join(STATE), state)?;
        // Another process may have been faster.
        if !is_whole(place, &names) {
            kept::remove(place);
            fs::rename(unfinished.path(), place)?;
            drop(unfinished.keep());
        }
        Ok(())
    });
    kept::forget_old(directory, place);
    named
}

#[cfg(test)]
mod tests;
