//! One walk over a granted directory before the command starts.
//!
//! It finds what must look different inside: secrets, what the host would execute, git
//! directories, and sockets and FIFOs (a bind mount leaves them connected to whatever listens
//! on the host). The walk goes by descriptors and follows no link. It also remembers when each
//! directory last changed, so that the walk at the end of the session reads only those that
//! did: a change time cannot be set back.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

/// What the visitor wants of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descend {
    /// Walk into it.
    Yes,
    /// Leave it.
    No,
}

/// One entry of a directory.
pub(crate) struct Found<'a> {
    /// The path relative to the walk's root.
    pub(crate) path: &'a Path,
    /// Its last component.
    pub(crate) name: &'a OsStr,
    /// What it is; a link is a link.
    pub(crate) kind: FileType,
}

/// A directory as it was seen.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Relative to the walk's root; empty for the root.
    pub(crate) path: PathBuf,
    /// The change time of its inode: seconds and nanoseconds.
    pub(crate) changed: (i64, u64),
}

/// Walks everything beneath `root`, calling `visit` for each entry, and returns the directories
/// that it entered. Directories that the user may not read hold nothing that the inside could
/// read, so they are passed over; so are those that vanish meanwhile.
///
/// # Errors
/// What opening a directory says; `ENAMETOOLONG` for a tree of more than [`DEEPEST`] levels.
pub(crate) fn walk(
    root: &Path,
    visit: &mut dyn FnMut(&Found<'_>) -> Descend,
) -> Result<Vec<Seen>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let mut walker =
        Walker { visit, buffer: vec![MaybeUninit::uninit(); BUFFER], seen: Vec::new() };
    walker.directory(root, Vec::new(), 0)?;
    Ok(walker.seen)
}

/// Bytes of entries that the kernel hands over at once.
const BUFFER: usize = 32 * 1024;
/// A descriptor is held for each level on the way down. A tree that is deeper is refused: what
/// was not looked at cannot be protected.
const DEEPEST: usize = 256;

struct Walker<'a> {
    visit: &'a mut dyn FnMut(&Found<'_>) -> Descend,
    buffer: Vec<MaybeUninit<u8>>,
    seen: Vec<Seen>,
}

impl Walker<'_> {
    fn directory(&mut self, directory: OwnedFd, path: Vec<u8>, depth: usize) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(&directory)?;
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        self.seen.push(Seen { path: PathBuf::from(OsStr::from_bytes(&path)), changed });
        for child in self.entries(&directory, &path)? {
            if depth == DEEPEST {
                return Err(Errno::NAMETOOLONG);
            }
            let name = child.rsplit(|byte| *byte == b'/').next().unwrap_or(&child);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
                Ok(opened) => self.directory(opened, child, depth + 1)?,
                Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Visits the entries and returns the paths of the directories to walk into.
    fn entries(&mut self, directory: &OwnedFd, path: &[u8]) -> Result<Vec<Vec<u8>>, Errno> {
        let mut below = Vec::new();
        let mut full = path.to_vec();
        if !full.is_empty() {
            full.push(b'/');
        }
        let stem = full.len();
        let mut entries = RawDir::new(directory.as_fd(), &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            full.truncate(stem);
            full.extend_from_slice(name);
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(directory, OsStr::from_bytes(name)),
                kind => kind,
            };
            let found = Found {
                path: Path::new(OsStr::from_bytes(&full)),
                name: OsStr::from_bytes(name),
                kind,
            };
            if (self.visit)(&found) == Descend::Yes && kind == FileType::Directory {
                below.push(full.clone());
            }
        }
        Ok(below)
    }
}

/// Some file systems do not say in the entry what it is.
fn kind_of(directory: &OwnedFd, name: &OsStr) -> FileType {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::statat(directory, name, flags)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

/// Joins a relative path to the walk's root.
pub(crate) fn beneath(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() {
        return root.to_owned();
    }
    let mut bytes = root.as_os_str().to_owned().into_vec();
    bytes.push(b'/');
    bytes.extend_from_slice(relative.as_os_str().as_bytes());
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}
