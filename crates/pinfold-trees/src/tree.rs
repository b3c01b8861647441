//! A directory tree that may be hostile, read and changed by descriptors beneath its root; no
//! symbolic link is followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Names of extended attributes that overlayfs uses for itself (`userxattr`).
const OF_THE_KERNEL: &[u8] = b"user.overlay.";
/// The mark of a whiteout that is a file.
const WHITEOUT: &str = "user.overlay.whiteout";
const CAPABILITIES: &[u8] = b"security.capability";
/// What a sandbox may set.
const OF_USERS: &[u8] = b"user.";

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    pub kind: FileType,
    /// Permission bits, with set-user-id, set-group-id and sticky.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
    /// Device and number of the inode.
    pub inode: (u64, u64),
    pub links: u64,
    pub owner: (u32, u32),
    /// Seconds and nanoseconds.
    pub modified: (i64, u64),
    /// Seconds and nanoseconds.
    pub changed: (i64, u64),
    device: u64,
    /// Whether it is an empty file that is marked as a whiteout.
    is_marked: bool,
}

impl Node {
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "their types differ between architectures"
    )]
    fn of(stat: &Stat) -> Self {
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            size: stat.st_size as u64,
            inode: (stat.st_dev.into(), stat.st_ino.into()),
            links: stat.st_nlink.into(),
            owner: (stat.st_uid, stat.st_gid),
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as u64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
            device: stat.st_rdev.into(),
            is_marked: false,
        }
    }

    pub fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Returns whether it says that something was deleted: a character device 0:0, as overlayfs makes it, or an empty file with
    /// a mark, where an overlay is below (`ovl_mknod` in the kernel's fs/overlayfs refuses that device; it reads the mark since Linux
    /// 6.7). No sandbox can make either.
    pub fn is_whiteout(&self) -> bool {
        self.is_marked || (self.kind == FileType::CharacterDevice && self.device == 0)
    }
}

/// The root of a tree.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
}

impl Tree {
    /// Opens a tree.
    ///
    /// # Errors
    /// Returns the error of `open(2)`; `ELOOP` for a link.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// Returns the tree of a directory that is open already.
    pub fn of(root: OwnedFd) -> Self {
        Self { root }
    }

    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns device and number of the root's inode.
    ///
    /// # Errors
    /// Returns the error of `fstat(2)`.
    pub fn node_of_root(&self) -> Result<Node, Errno> {
        Ok(Node::of(&rustix::fs::fstat(&self.root)?))
    }

    fn open_at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), how)
    }

    /// Returns a directory, to be read or changed.
    ///
    /// # Errors
    /// Returns the error of `openat2(2)`; `ELOOP` where a link is on the way.
    pub fn directory(&self, path: &Path) -> Result<OwnedFd, Errno> {
        self.open_at(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
    }

    /// Returns the directory above a path, and the path's last component.
    ///
    /// # Errors
    /// Returns the errors of [`Self::directory`].
    pub fn above<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), Errno> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        Ok((self.directory(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Returns what lies at a path; `None` where nothing does.
    ///
    /// # Errors
    /// Returns the errors of [`Self::directory`], and the error of `fstatat(2)`.
    pub fn node(&self, path: &Path) -> Result<Option<Node>, Errno> {
        let Some(name) = path.file_name() else { return self.node_of_root().map(Some) };
        let above = path.parent().unwrap_or(Path::new(""));
        match self.open_at(above, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW) {
            Ok(above) => node_at(above, name),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Returns a regular file, to be read.
    ///
    /// # Errors
    /// Returns the error of `openat2(2)`; `EINVAL` for what is not a regular file.
    pub fn file(&self, path: &Path) -> Result<File, Errno> {
        // A FIFO must not make the reader wait.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = self.open_at(path, flags)?;
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
        if kind == FileType::RegularFile { Ok(file.into()) } else { Err(Errno::INVAL) }
    }

    /// Returns where a symbolic link leads.
    ///
    /// # Errors
    /// Returns the error of `readlinkat(2)`.
    pub fn link(&self, path: &Path) -> Result<PathBuf, Errno> {
        let (above, name) = self.above(path)?;
        let target = rustix::fs::readlinkat(above, name, Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}

/// Returns what lies at a name in a directory; `None` where nothing does.
///
/// # Errors
/// Returns the error of `fstatat(2)`.
pub fn node_at(directory: impl AsFd, name: &OsStr) -> Result<Option<Node>, Errno> {
    match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => {
            let node = Node::of(&stat);
            let is_empty = node.kind == FileType::RegularFile && node.size == 0;
            Ok(Some(Node { is_marked: is_empty && is_marked(directory, name), ..node }))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns whether a file is marked as a whiteout. One that cannot be opened is not.
fn is_marked(directory: impl AsFd, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
    let mark = |file| rustix::fs::fgetxattr(file, WHITEOUT, &mut [0_u8; 1][..]);
    opened.and_then(mark).is_ok()
}

/// Returns a directory at a name in another.
///
/// # Errors
/// Returns the error of `openat(2)`; `ELOOP` or `ENOTDIR` for a link.
pub fn directory_at(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

/// Returns the names in a directory, sorted.
///
/// # Errors
/// Returns the error of `getdents64(2)`.
pub fn names(directory: impl AsFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns extended attributes that a sandbox may set on a file or directory, sorted by name. A file system
/// without them has none.
///
/// # Errors
/// Returns the error of `flistxattr(2)` and `fgetxattr(2)`.
pub fn attributes(place: impl AsFd) -> Result<Vec<(OsString, Vec<u8>)>, Errno> {
    let list = grown(|buffer| rustix::fs::flistxattr(&place, buffer));
    let list = match list {
        Ok(list) => list,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno),
    };
    let mut found = Vec::new();
    for name in list.split(|byte| *byte == 0) {
        if name.starts_with(OF_USERS) && !name.starts_with(OF_THE_KERNEL) {
            let name = OsStr::from_bytes(name);
            let value = grown(|buffer| rustix::fs::fgetxattr(&place, name, buffer))?;
            found.push((name.to_owned(), value));
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the access control list of a file or directory (acl(5)), as the kernel has it; `None` without
/// one.
///
/// # Errors
/// Returns the error of `fgetxattr(2)`.
pub fn access_list(place: impl AsFd) -> Result<Option<Vec<u8>>, Errno> {
    match grown(|buffer| rustix::fs::fgetxattr(&place, ACCESS_LIST, buffer)) {
        Ok(list) => Ok(Some(list)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// The extended attribute of access control lists.
pub const ACCESS_LIST: &str = "system.posix_acl_access";

/// Returns whether a file has extended attributes that must not come to a workspace: notes of overlayfs, or capabilities, which a
/// program of a nested sandbox may have got (capabilities(7)).
///
/// # Errors
/// Returns the error of `flistxattr(2)`.
pub fn has_notes(place: impl AsFd) -> Result<bool, Errno> {
    let list = match grown(|buffer| rustix::fs::flistxattr(&place, buffer)) {
        Err(Errno::NOTSUP) => return Ok(false),
        list => list?,
    };
    let is_note = |name: &[u8]| name.starts_with(OF_THE_KERNEL) || name == CAPABILITIES;
    Ok(list.split(|byte| *byte == 0).any(is_note))
}

/// Returns whether overlayfs shows nothing of what lies below a directory of a layer.
///
/// # Errors
/// Returns the error of `fgetxattr(2)`.
pub fn is_opaque(directory: impl AsFd) -> Result<bool, Errno> {
    let mut value = [0_u8; 1];
    match rustix::fs::fgetxattr(directory, "user.overlay.opaque", &mut value[..]) {
        Ok(length) => Ok(length == 1 && value == *b"y"),
        Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Calls with a buffer that is as large as the answer.
fn grown(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    /// What the kernel allows (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
    const MOST: usize = 64 * 1024;
    let mut small = [0_u8; 256];
    match call(&mut small) {
        Ok(length) => Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {
            let mut buffer = vec![0_u8; MOST];
            let length = call(&mut buffer)?;
            buffer.truncate(length);
            Ok(buffer)
        }
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests;
