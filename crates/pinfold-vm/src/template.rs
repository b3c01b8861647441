//! What is kept of a machine that was booted and has not spoken: its memory, and the state of its devices.
//!
//! A file belongs to one user, who alone may read and write it, and has a sum over each of its parts. One that is cut
//! off, damaged or somebody else's is not used. It is no part of any machine: a machine's memory is filled from it.

mod stored;

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{MemfdFlags, OFlags, SealFlags, SeekFrom};
use rustix::io::Errno;
use rustix::process::Resource;
use thiserror::Error;

use crate::kept;
use crate::machine::{Origin, Snapshot};
use crate::read::read;
use crate::said::printable;
pub(crate) use stored::MOST_DEVICES;
use stored::Stored;

/// Bytes of why no machine comes up.
const LONGEST_REFUSAL: u64 = 4096;

/// Why a machine has no memory.
#[derive(Debug, Error)]
pub enum MemoryError {
    /// The caller's files may not be as large.
    #[error(
        "cannot make the memory of a machine: a file may have {limit} bytes at most, and it has {bytes}"
    )]
    Limit {
        limit: u64,
        /// How large the memory is.
        bytes: u64,
    },
    /// The system refused.
    #[error("cannot make the memory of a machine: {0}")]
    System(#[from] Errno),
}

/// Makes the memory of a machine, in which nothing is.
///
/// # Errors
/// Returns the errors of memfd_create(2), ftruncate(2) and fcntl(2), or that the caller's files may not be so large.
pub(crate) fn new_memory(bytes: u64) -> Result<OwnedFd, MemoryError> {
    // Beyond it, the kernel would end this process (SIGXFSZ, setrlimit(2)).
    let limit = rustix::process::getrlimit(Resource::Fsize).current;
    if let Some(limit) = limit.filter(|limit| *limit < bytes) {
        return Err(MemoryError::Limit { limit, bytes });
    }
    let memory =
        rustix::fs::memfd_create("machine", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&memory, bytes)?;
    // Its file server maps it, and would be ended by a part that is gone.
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // As QEMU's standard input it has nothing to be read.
    rustix::fs::seek(&memory, SeekFrom::End(0))?;
    Ok(memory)
}

/// The file of one machine, in a directory for those of all.
#[derive(Debug)]
pub(crate) struct Template {
    directory: PathBuf,
    /// What the machine is made of, of which another one has another name.
    name: String,
}

impl Template {
    /// Returns the one of a machine with this origin.
    ///
    /// # Errors
    /// Returns the error of a file that cannot be looked at.
    pub(crate) fn of(directory: &Path, origin: &Origin) -> io::Result<Self> {
        let mut hasher = DefaultHasher::new();
        origin.words.hash(&mut hasher);
        for path in &origin.files {
            let file = fs::metadata(path)?;
            path.hash(&mut hasher);
            (file.dev(), file.ino(), file.size()).hash(&mut hasher);
            (file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()).hash(&mut hasher);
        }
        let name = format!("{:016x}", hasher.finish());
        Ok(Self { directory: directory.into(), name })
    }

    fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// Opens it, to be filled from. Returns nothing without a usable one.
    pub(crate) fn open(&self, size: u64) -> Option<Opened> {
        let file = File::options().read(true).custom_flags(flags()).open(self.path()).ok()?;
        let about = file.metadata().ok()?;
        let is_own = about.is_file()
            && about.uid() == rustix::process::geteuid().as_raw()
            && about.mode() & 0o077 == 0;
        if !is_own {
            return None;
        }
        let stored = Stored::read(&file, about.len(), &self.name).ok()?;
        let id = FileId::of(&about);
        (stored.size() == size).then_some(Opened { file, id, stored })
    }

    /// Keeps a machine for later starts, and removes those that were not used for longest.
    ///
    /// # Errors
    /// Returns the error of a file that cannot be written. None is left then.
    pub(crate) fn keep(&self, snapshot: &Snapshot) -> io::Result<()> {
        kept::make_directory(&self.directory)?;
        // The caller's alone, and gone on drop unless it gets its name.
        let unfinished =
            tempfile::Builder::new().prefix(kept::UNFINISHED).tempfile_in(&self.directory)?;
        // Its sums say later whether all of it got to the disk.
        let written = stored::write(unfinished.as_file(), &self.name, snapshot)
            .and_then(|()| Ok(unfinished.persist(self.path()).map(drop)?));
        kept::forget_old(&self.directory, &self.path());
        written
    }

    /// Keeps why no machine of this origin comes up.
    ///
    /// # Errors
    /// Returns the error of a file that cannot be written.
    pub(crate) fn refuse(&self, why: &str) -> io::Result<()> {
        let mut unfinished =
            tempfile::Builder::new().prefix(kept::UNFINISHED).tempfile_in(&self.directory)?;
        unfinished.write_all(why.as_bytes())?;
        unfinished.persist(self.given_up())?;
        Ok(())
    }

    /// Returns why no machine of this origin comes up, if that was tried. It is forgotten when nobody has asked for a day.
    pub(crate) fn refusal(&self) -> Option<String> {
        if !self.is_given_up() {
            return None;
        }
        let why = read(&self.given_up(), LONGEST_REFUSAL).ok()?;
        kept::mark_used(&self.given_up());
        Some(printable(&String::from_utf8_lossy(&why)).trim_end().to_owned())
    }

    /// Removes it, and has starts of the next day do without one.
    pub(crate) fn give_up(&self) {
        let _ = fs::remove_file(self.path());
        // Its time is new, too, where it was there.
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let _ = options.custom_flags(flags()).open(self.given_up());
    }

    /// Returns whether a machine that was just booted could not be restored within the last day.
    pub(crate) fn is_given_up(&self) -> bool {
        let changed = fs::symlink_metadata(self.given_up()).and_then(|about| about.modified());
        changed.is_ok_and(|time| kept::is_within(time, kept::DAY))
    }

    fn given_up(&self) -> PathBuf {
        self.directory.join(format!("{}{}", self.name, kept::NONE))
    }

    /// Removes a file that cannot be used, unless another process has put a new one in its place.
    pub(crate) fn remove(&self, file: FileId) {
        let is_same = |about: fs::Metadata| FileId::of(&about) == file;
        if fs::symlink_metadata(self.path()).is_ok_and(is_same) {
            let _ = fs::remove_file(self.path());
        }
    }
}

/// What no other file is at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    fn of(about: &fs::Metadata) -> Self {
        Self { device: about.dev(), number: about.ino() }
    }
}

/// Why a memory was not filled from a template.
#[derive(Debug, Error)]
pub(crate) enum FillError {
    /// A part cannot be read, or is not what was written.
    #[error("the template is damaged")]
    Damaged,
    /// The memory cannot be written.
    #[error("cannot fill the memory of a machine: {0}")]
    Memory(#[source] io::Error),
}

fn flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed()
}

/// A template that can be used, as far as its beginning says.
#[derive(Debug)]
pub(crate) struct Opened {
    file: File,
    id: FileId,
    stored: Stored,
}

impl Opened {
    /// Fills the memory of a machine. Returns the state of its devices.
    ///
    /// # Errors
    /// Returns an error if a part is damaged or missing, or cannot be written.
    pub(crate) fn fill(&self, memory: impl AsFd) -> Result<Vec<u8>, FillError> {
        let memory = memory.as_fd().try_clone_to_owned().map_err(FillError::Memory)?;
        self.stored.copy(&self.file, &memory.into())?;
        // The oldest by this time are removed.
        let _ = self.file.set_modified(SystemTime::now());
        Ok(self.stored.devices.clone())
    }

    /// Returns which file it is.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }
}

#[cfg(test)]
mod tests;
