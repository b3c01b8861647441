//! Where tools may go: everywhere a command of the same sandbox may go.
//!
//! The walls around the session decide what can be opened, so a tool sees what `exec` sees. The roots only
//! decide how a missing path is reported: as missing below a root, where the session's own files are, and as
//! an escape elsewhere, where the host may have a file that the session was not given.
//!
//! Where an open file really lies is read from the kernel (`/proc/self/fd`, proc(5)), so a symbolic link that
//! changes in between does not separate what was judged from what is used. (openat2(2) is not available
//! behind the filter, which cannot read its flags.)

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::Bytes;
use crate::error::{ErrorKind, ToolError};

/// With these an open(2) waits for nobody, and gives what it opens to no program.
const CALM: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);
/// Opens a directory only to reach what lies in it.
const ABOVE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// The session's granted and private directories, and the directory that relative paths start from.
#[derive(Debug, Clone)]
pub struct Roots {
    roots: Vec<PathBuf>,
    cwd: PathBuf,
}

/// Something that is there.
pub(crate) struct Opened {
    pub(crate) file: OwnedFd,
    /// Where it lies, without links on the way.
    pub(crate) real: PathBuf,
}

/// A place for a file: its directory and its name.
pub(crate) struct Spot {
    pub(crate) directory: Opened,
    pub(crate) name: OsString,
    /// What is there now.
    pub(crate) there: Option<There>,
}

/// A regular file, open, its state when it was opened, and where it lay.
pub(crate) struct There {
    pub(crate) file: File,
    pub(crate) about: Stat,
    real: PathBuf,
}

impl Roots {
    /// Makes roots of absolute paths inside.
    #[must_use]
    pub fn new(roots: Vec<PathBuf>, cwd: PathBuf) -> Self {
        Self { roots, cwd }
    }

    /// Opens what lies at a path. What is no file or directory does not make this wait.
    ///
    /// # Errors
    /// Returns the error of open(2), or an escape if a missing path lies outside every root.
    pub(crate) fn open(&self, path: &Bytes, flags: OFlags) -> Result<Opened, ToolError> {
        self.open_at(&self.absolute(path)?, path, flags)
    }

    fn open_at(&self, at: &Path, path: &Bytes, flags: OFlags) -> Result<Opened, ToolError> {
        open(at, flags).map_err(|errno| match errno {
            Errno::NOENT if self.leads_out(at) => ToolError::escapes(path),
            errno => ToolError::system(path)(errno),
        })
    }

    /// Returns a place where a file is, or can be made. A symbolic link is followed to where it leads.
    ///
    /// # Errors
    /// Returns an error for a missing path outside every root; a directory above it that is not there,
    /// unless it is to be made; anything there that is not a regular file.
    pub(crate) fn spot(&self, path: &Bytes, parents: bool) -> Result<Spot, ToolError> {
        let at = self.absolute(path)?;
        match self.open_at(&at, path, OFlags::PATH) {
            Ok(opened) => self.spot_of(There::new(opened, path)?, path),
            Err(error) if error.kind == ErrorKind::NotFound => {
                if rustix::fs::lstat(&at).is_ok() {
                    let what = "is a symbolic link that leads nowhere";
                    return Err(ToolError::about(ErrorKind::NotFound, what, path));
                }
                // Path takes both for the file of the name before.
                if [&b"/"[..], b"/."].iter().any(|end| path.as_slice().ends_with(end)) {
                    let what = "names a directory, by the slash at its end";
                    return Err(ToolError::about(ErrorKind::IsDirectory, what, path));
                }
                let (above, name) = divided(&at, path)?;
                let directory = if parents {
                    self.make(above, path)?
                } else {
                    self.open_at(above, path, ABOVE)?
                };
                Ok(Spot { directory, name: name.to_owned(), there: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the place of a file that is open.
    ///
    /// # Errors
    /// Returns the errors of [`Self::spot`].
    pub(crate) fn spot_of(&self, there: There, path: &Bytes) -> Result<Spot, ToolError> {
        let (above, name) = divided(&there.real, path)?;
        let directory = self.open_at(above, path, ABOVE)?;
        Ok(Spot { directory, name: name.to_owned(), there: Some(there) })
    }

    /// Makes a directory, and those above it, where they are not there yet.
    ///
    /// # Errors
    /// Returns an error for a missing path outside every root, or the error of mkdir(2).
    pub(crate) fn make_directory(&self, path: &Bytes) -> Result<Opened, ToolError> {
        self.make(&self.absolute(path)?, path)
    }

    fn make(&self, at: &Path, path: &Bytes) -> Result<Opened, ToolError> {
        let mut missing: Vec<&OsStr> = Vec::new();
        let mut above = at;
        let mut directory = loop {
            match self.open_at(above, path, ABOVE) {
                Err(error) if error.kind == ErrorKind::NotFound => {}
                done => break done?,
            }
            match (above.parent(), above.components().next_back()) {
                (Some(parent), Some(Component::Normal(name))) => {
                    missing.push(name);
                    above = parent;
                }
                _ => return Err(ToolError::system(path)(Errno::NOENT)),
            }
        };
        for name in missing.into_iter().rev() {
            match rustix::fs::mkdirat(&directory.file, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(ToolError::system(path)(errno)),
            }
            let below = rustix::fs::openat(
                &directory.file,
                name,
                ABOVE | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            );
            let file = below.map_err(ToolError::system(path))?;
            let real = real_path(&file).map_err(ToolError::system(path))?;
            directory = Opened { file, real };
        }
        Ok(directory)
    }

    fn absolute(&self, path: &Bytes) -> Result<PathBuf, ToolError> {
        let bytes = path.as_slice();
        if bytes.is_empty() || bytes.contains(&0) {
            let what = "not a path: it is empty or has a NUL byte";
            return Err(ToolError::about(ErrorKind::Request, what, path));
        }
        Ok(self.cwd.join(path.as_path()))
    }

    fn is_outside(&self, real: &Path) -> bool {
        !self.roots.iter().any(|root| real.starts_with(root))
    }

    /// Returns whether the existing part of a path lies outside every root. Dangling links are followed.
    fn leads_out(&self, at: &Path) -> bool {
        /// As many links as the kernel follows (path_resolution(7)).
        const LINKS: usize = 40;
        let mut at = at.to_owned();
        for _ in 0..LINKS {
            let Some(link) = at.ancestors().find_map(|above| match open(above, OFlags::PATH) {
                Ok(opened) => Some(Err(self.is_outside(&opened.real))),
                Err(_) => rustix::fs::readlink(above, Vec::new()).ok().map(|target| {
                    let target = OsString::from_vec(target.into_bytes());
                    Ok(above.parent().unwrap_or(above).join(target))
                }),
            }) else {
                return true;
            };
            match link {
                Ok(target) => at = target,
                Err(is_outside) => return is_outside,
            }
        }
        true
    }
}

impl There {
    /// Takes an open file.
    ///
    /// # Errors
    /// Returns an error for anything but a regular file.
    pub(crate) fn new(Opened { file, real }: Opened, path: &Bytes) -> Result<Self, ToolError> {
        let about = rustix::fs::fstat(&file).map_err(ToolError::system(path))?;
        regular(&about, path)?;
        Ok(Self { file: file.into(), about, real })
    }
}

/// Returns a path's directory and name.
///
/// # Errors
/// Returns an error for a path that ends in none.
fn divided<'a>(at: &'a Path, path: &Bytes) -> Result<(&'a Path, &'a OsStr), ToolError> {
    let is_directory = || ToolError::about(ErrorKind::IsDirectory, "is a directory", path);
    at.parent().zip(at.file_name()).ok_or_else(is_directory)
}

/// Checks that a file is regular.
///
/// # Errors
/// Returns an error for anything else.
fn regular(stat: &Stat, path: &Bytes) -> Result<(), ToolError> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(ToolError::system(path)(Errno::ISDIR)),
        _ => Err(ToolError::about(ErrorKind::Special, "not a regular file", path)),
    }
}

fn open(at: &Path, flags: OFlags) -> Result<Opened, Errno> {
    // With O_PATH the kernel refuses other flags than its own (open(2)).
    let flags = if flags.contains(OFlags::PATH) { flags | OFlags::CLOEXEC } else { flags | CALM };
    let file = rustix::fs::open(at, flags, Mode::empty())?;
    let real = real_path(&file)?;
    Ok(Opened { file, real })
}

/// Returns a directory that a walk has seen, if it still lies there: whatever has come in the place of
/// one above it may lead elsewhere.
pub(crate) fn open_seen(directory: &Path) -> Option<OwnedFd> {
    let Opened { file, real } = open(directory, OFlags::PATH | OFlags::DIRECTORY).ok()?;
    (real == directory).then_some(file)
}

/// Returns a regular file that a walk has seen in this directory, and its size, if it is still one: what
/// has come in its place may lie elsewhere, or never end.
pub(crate) fn open_in(directory: &OwnedFd, name: &OsStr) -> Option<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | CALM;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?;
    let about = rustix::fs::fstat(&file).ok()?;
    let is_regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    is_regular.then(|| (file.into(), u64::try_from(about.st_size).unwrap_or_default()))
}

/// Returns where an open file lies now.
pub(crate) fn real_path(file: &impl AsFd) -> Result<PathBuf, Errno> {
    let link = link_of(file);
    let target = rustix::fs::readlink(link, Vec::new())?.into_bytes();
    match target.first() {
        Some(b'/') => Ok(PathBuf::from(OsStr::from_bytes(&target))),
        // A pipe or the like, or what no path leads to any more.
        _ => Err(Errno::NOENT),
    }
}

/// Returns the name by which an open file can be opened or linked again (proc(5)).
pub(crate) fn link_of(file: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd())
}
