//! The files of a directory, read once, in one order.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;
use ring::digest::{Context, SHA256};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::hash::{ContextDigest, Sha256};

/// What is no part of a context, at any depth: what is made from the rest, and history.
const LEFT_OUT: [&str; 3] = ["node_modules", "dist", ".git"];
/// The most files, bytes and levels of a context. More is a mistake: a home directory, a cache.
const MOST_FILES: usize = 100_000;
const MOST_BYTES: u64 = 2 << 30;
const DEEPEST: usize = 64;

/// Why a context cannot be read or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// What reading or writing a file says.
    #[error("cannot {doing} {}: {cause}", Escaped(.path))]
    File {
        /// What was tried.
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    /// Neither a file nor a directory.
    #[error("{} is a device, socket or FIFO, which no image can be made of", Escaped(.path))]
    Special { path: PathBuf },
    /// A link that leads nowhere, out of the directory or to another directory.
    #[error("the link {} does not lead to a file of the same folder", Escaped(.path))]
    Link { path: PathBuf },
    /// Too much.
    #[error(
        "{} has more than {MOST_FILES} files, {} GiB or {DEEPEST} levels", Escaped(.path),
        MOST_BYTES >> 30
    )]
    TooLarge { path: PathBuf },
}

impl ContextError {
    /// Returns the hint.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Special { .. } => Some("remove it, or move it elsewhere".to_owned()),
            Self::Link { .. } => Some("put what it leads to there itself".to_owned()),
            Self::TooLarge { .. } => Some(format!(
                "keep out what can be made again; directories called {} are left out anyway",
                LEFT_OUT.join(", ")
            )),
            Self::File { .. } => None,
        }
    }
}

/// The files below a directory, sorted by the bytes of their paths, without what is left out. Links are
/// followed to files of the same directory and nowhere else. Directories without files are no part of
/// it, since no hash would tell of them.
#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    directory: OwnedFd,
    files: BTreeSet<Vec<u8>>,
}

impl Tree {
    /// Lists a directory's files.
    ///
    /// # Errors
    /// Returns what cannot be read, or can be no part of an image.
    pub(crate) fn list(root: &Path) -> Result<Self, ContextError> {
        let mut tree = Self::open(root)?;
        tree.visit(Path::new(""), 0)?;
        Ok(tree)
    }

    /// Lists the files below a directory's directories; files next to these are somebody's notes.
    ///
    /// # Errors
    /// Returns the errors of [`Self::list`].
    pub(crate) fn list_folders(root: &Path) -> Result<Self, ContextError> {
        let mut tree = Self::open(root)?;
        tree.visit(Path::new(""), 0)?;
        let (within, others) = tree.files.into_iter().partition(|path| path.contains(&b'/'));
        tree.files = within;
        let others: BTreeSet<Vec<u8>> = others;
        // A link to a directory is meant as one of them: it would be missing without a word.
        let is_directory = |path: &&Vec<u8>| {
            let found = rustix::fs::statat(&tree.directory, path.as_slice(), AtFlags::empty());
            found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
        };
        match others.iter().find(is_directory) {
            Some(link) => Err(ContextError::Link { path: tree.root.join(OsStr::from_bytes(link)) }),
            None => Ok(tree),
        }
    }

    /// Lists the files of a directory of another one, which somebody else may have written: no link is
    /// on the way there. None if nothing lies there.
    ///
    /// # Errors
    /// Returns the errors of [`Self::list`]; of what is no directory, too.
    pub(crate) fn list_below(root: &Path, name: &str) -> Result<Option<Self>, ContextError> {
        let above = Self::open(root)?;
        let how = BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = match rustix::fs::openat2(
            &above.directory,
            name,
            DIRECTORY_FLAGS,
            Mode::empty(),
            how,
        ) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(ContextError::Link { path: root.join(name) }),
            Err(errno) => return Err(failed("read", &root.join(name), errno)),
        };
        let mut tree = Self { root: root.join(name), directory, files: BTreeSet::new() };
        tree.visit(Path::new(""), 0)?;
        Ok(Some(tree))
    }

    fn open(root: &Path) -> Result<Self, ContextError> {
        let directory = rustix::fs::open(root, DIRECTORY_FLAGS, Mode::empty())
            .map_err(|errno| failed("read", root, errno))?;
        Ok(Self { root: root.to_owned(), directory, files: BTreeSet::new() })
    }

    /// Returns the paths of the files, in order.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|path| Path::new(OsStr::from_bytes(path)))
    }

    /// Returns whether there is no file.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns whether there is a file of this path.
    #[must_use]
    pub(crate) fn has(&self, path: &str) -> bool {
        self.files.contains(path.as_bytes())
    }

    /// Returns the same except a file.
    #[must_use]
    pub(crate) fn without(mut self, path: &str) -> Self {
        self.files.remove(path.as_bytes());
        self
    }

    /// Returns a small file whole.
    ///
    /// # Errors
    /// Returns the error of reading; a file of more than `most` bytes.
    pub(crate) fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, ContextError> {
        let (file, _) = self.file(Path::new(path))?;
        let place = self.root.join(path);
        let mut bytes = Vec::new();
        let read = file.take(most + 1).read_to_end(&mut bytes);
        read.map_err(|cause| failed("read", &place, cause))?;
        if bytes.len() as u64 > most {
            Err(failed("read", &place, io::Error::from(io::ErrorKind::FileTooLarge)))
        } else {
            Ok(bytes)
        }
    }

    /// Reads every file once: takes it into a hash over paths and contents, which is returned, and into
    /// `whole`, as what lies at `prefix`; and puts it there below `into`, if that is given. So what is
    /// hashed is what is copied, whatever is changed since.
    ///
    /// # Errors
    /// Returns the error of reading or writing.
    pub(crate) fn digest(
        &self,
        prefix: &str,
        whole: &mut ContextDigest,
        into: Option<&Path>,
    ) -> Result<Sha256, ContextError> {
        let mut hash = Context::new(&SHA256);
        let mut left = MOST_BYTES;
        for name in &self.files {
            let path = Path::new(OsStr::from_bytes(name));
            let (mut file, found) = self.file(path)?;
            let place = Path::new(prefix).join(path);
            let may_be_executed = found.may_be_executed;
            let mut copy =
                into.map(|into| Copy::create(into, &place, may_be_executed)).transpose()?;
            left = left
                .checked_sub(found.length)
                .ok_or_else(|| ContextError::TooLarge { path: self.root.clone() })?;
            hash.update(name);
            hash.update(b"\0");
            whole.file(place.as_os_str().as_bytes(), may_be_executed, found.length);
            let mut take = |bytes: &[u8]| {
                hash.update(bytes);
                whole.bytes(bytes);
                copy.as_mut().map_or(Ok(()), |copy| copy.write(bytes))
            };
            stream(&mut file, found.length, &self.root.join(path), &mut take)?;
            hash.update(b"\0");
        }
        Ok(Sha256::finish(hash))
    }

    fn visit(&mut self, path: &Path, depth: usize) -> Result<(), ContextError> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let place = self.root.join(path);
        let flags = DIRECTORY_FLAGS | OFlags::NOFOLLOW;
        let directory = rustix::fs::openat2(&self.directory, here, flags, Mode::empty(), BENEATH)
            .map_err(|errno| failed("read", &place, errno))?;
        if depth == DEEPEST {
            return Err(ContextError::TooLarge { path: self.root.clone() });
        }
        for entry in Dir::read_from(&directory).map_err(|errno| failed("read", &place, errno))? {
            let entry = entry.map_err(|errno| failed("read", &place, errno))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || LEFT_OUT.iter().any(|known| name == *known) {
                continue;
            }
            let path = path.join(name);
            match kind(&directory, entry.file_name(), entry.file_type())
                .map_err(|errno| failed("look at", &self.root.join(&path), errno))?
            {
                FileType::Directory => self.visit(&path, depth + 1)?,
                FileType::RegularFile | FileType::Symlink => {
                    self.files.insert(path.into_os_string().as_bytes().to_vec());
                }
                _ => return Err(ContextError::Special { path: self.root.join(path) }),
            }
            if self.files.len() > MOST_FILES {
                return Err(ContextError::TooLarge { path: self.root.clone() });
            }
        }
        Ok(())
    }

    /// Opens a file by a path that stays in the directory.
    fn file(&self, path: &Path) -> Result<(File, Found), ContextError> {
        let place = self.root.join(path);
        // A file of another kind that was put in its place since is not waited for.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), BENEATH);
        let is_link = || fs::symlink_metadata(&place).is_ok_and(|found| found.is_symlink());
        let file = match opened {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::XDEV | Errno::LOOP | Errno::NOTDIR) if is_link() => {
                return Err(ContextError::Link { path: place });
            }
            Err(Errno::NXIO) => return Err(ContextError::Special { path: place }),
            Err(errno) => return Err(failed("read", &place, errno)),
        };
        let found = rustix::fs::fstat(&file).map_err(|errno| failed("look at", &place, errno))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(ContextError::Link { path: place }),
            _ => return Err(ContextError::Special { path: place }),
        }
        let length = u64::try_from(found.st_size).unwrap_or(0);
        let found = Found { length, may_be_executed: found.st_mode & 0o111 != 0 };
        Ok((file.into(), found))
    }
}

const DIRECTORY_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// What is known of a file that was opened.
struct Found {
    length: u64,
    may_be_executed: bool,
}

/// Returns the kind of an entry; some file systems say it only when they are asked.
fn kind(directory: impl AsFd, name: &std::ffi::CStr, listed: FileType) -> Result<FileType, Errno> {
    match listed {
        FileType::Unknown => {
            let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(found.st_mode))
        }
        known => Ok(known),
    }
}

/// A file in a context.
struct Copy {
    file: File,
    path: PathBuf,
}

impl Copy {
    /// Rights are set, since those that the caller's umask leaves would be in the image.
    fn create(into: &Path, place: &Path, may_be_executed: bool) -> Result<Self, ContextError> {
        let mut above = into.to_owned();
        for part in place.parent().into_iter().flat_map(Path::components) {
            above.push(part);
            match fs::create_dir(&above) {
                Ok(()) => fs::set_permissions(&above, Permissions::from_mode(0o755)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(error),
            }
            .map_err(|cause| failed("make", &above, cause))?;
        }
        let path = into.join(place);
        let mode = Permissions::from_mode(if may_be_executed { 0o755 } else { 0o644 });
        let file = File::create_new(&path)
            .and_then(|file| file.set_permissions(mode).map(|()| file))
            .map_err(|cause| failed("write", &path, cause))?;
        Ok(Self { file, path })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), ContextError> {
        self.file.write_all(bytes).map_err(|cause| failed("write", &self.path, cause))
    }
}

/// Puts a file that is in memory into a context.
pub(crate) fn put(
    into: &Path,
    name: &str,
    bytes: &[u8],
    whole: &mut ContextDigest,
) -> Result<(), ContextError> {
    Copy::create(into, Path::new(name), false)?.write(bytes)?;
    take_in(name, bytes, whole);
    Ok(())
}

/// Takes a file that is in memory into a hash.
pub(crate) fn take_in(name: &str, bytes: &[u8], whole: &mut ContextDigest) {
    whole.file(name.as_bytes(), false, bytes.len() as u64);
    whole.bytes(bytes);
}

/// Reads as many bytes as a file had when it was opened.
fn stream(
    file: &mut File,
    length: u64,
    path: &Path,
    take: &mut dyn FnMut(&[u8]) -> Result<(), ContextError>,
) -> Result<(), ContextError> {
    let mut buffer = vec![0; 64 << 10];
    let mut left = length;
    while left > 0 {
        let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match file.read(&mut buffer[..most]) {
            Ok(0) => {
                let cause = io::Error::other("it became shorter while it was read");
                return Err(failed("read", path, cause));
            }
            Ok(count) => {
                take(&buffer[..count])?;
                left -= count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(failed("read", path, cause)),
        }
    }
    Ok(())
}

pub(crate) fn failed(
    doing: &'static str,
    path: &Path,
    cause: impl Into<io::Error>,
) -> ContextError {
    ContextError::File { doing, path: path.to_owned(), cause: cause.into() }
}

#[cfg(test)]
mod tests;
