//! Mounts that are not attached yet: clones of what lies on the host, and new file systems.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use crate::plan::Lower;
use crate::sys;

pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(super) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(super) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;
const PRIVATE: u64 = libc::MS_PRIVATE;

/// Where the content of an entry comes from.
pub(super) enum Source {
    /// Not from the host, or opened by the child.
    Child,
    /// A detached mount that the parent made.
    Detached(OwnedFd),
    /// The detached mounts of a copy-on-write view; changes that are private have none yet.
    Layers { lower: Vec<OwnedFd>, changes: Option<OwnedFd> },
}

impl Source {
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (first, more) = match self {
            Self::Child => (None, &[][..]),
            Self::Detached(mount) => (Some(mount), &[][..]),
            Self::Layers { lower, changes } => (changes.as_ref(), lower.as_slice()),
        };
        first.into_iter().chain(more).map(AsFd::as_fd)
    }
}

/// Clones what lies at a host path to a detached mount with the flags that every grant has. No symbolic
/// link is followed, nor taken itself: what was decided on was the path without any, and somebody may
/// have put one there since.
///
/// # Errors
/// Returns the error of `open_tree(2)` and `mount_setattr(2)`; `ELOOP` for a link (openat2(2),
/// `RESOLVE_NO_SYMLINKS`).
pub(super) fn clone_host(path: &Path, writable: bool) -> Result<OwnedFd, Errno> {
    clone_tree(open_host(path)?, "", grant_attributes(writable))
}

/// Opens what lies at a host path, to which no symbolic link leads (`ELOOP`).
///
/// # Errors
/// Returns the error of `openat2(2)`.
pub(crate) fn open_host(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), how)
}

/// Returns the same for a layer of a view.
///
/// # Errors
/// Returns the errors of [`clone_host`].
pub(super) fn clone_lower(lower: &Lower) -> Result<OwnedFd, Errno> {
    clone_host(lower.host().as_path(), lower.is_owned())
}

/// Returns the flags that every grant has.
pub(crate) fn grant_attributes(writable: bool) -> u64 {
    NO_SUID | NO_DEVICES | if writable { 0 } else { READ_ONLY }
}

pub(crate) fn clone_tree(
    directory: impl AsFd,
    path: impl AsRef<Path>,
    set: u64,
) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW
        | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(directory, path.as_ref(), flags)?;
    // Private: what the host mounts later in a granted directory does not appear inside.
    sys::mount_setattr(tree.as_fd(), true, &sys::attributes(set, PRIVATE))?;
    Ok(tree)
}

pub(crate) fn new_filesystem(
    kind: &str,
    options: &[(&str, &str)],
    set: u64,
) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, *value)?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::from_bits_retain(set as u32);
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Returns a new file system in memory; `bytes` bounds what it holds, and how many files.
///
/// # Errors
/// Returns the error of the mount calls.
pub(super) fn new_memory(bytes: Option<u64>) -> Result<OwnedFd, Errno> {
    let size = bytes.map(|bytes| bytes.to_string());
    // One inode for each 4 KiB, as mke2fs(8) would be generous to do. An empty file takes none of the size, but
    // about a kilobyte of the kernel's memory.
    let inodes = bytes.map(|bytes| (bytes / 4096).max(16_384).to_string());
    let mut options = vec![("mode", "0755")];
    options.extend(size.as_deref().map(|size| ("size", size)));
    options.extend(inodes.as_deref().map(|inodes| ("nr_inodes", inodes)));
    new_filesystem("tmpfs", &options, NO_SUID | NO_DEVICES)
}

pub(crate) fn attach(
    mount: impl AsFd,
    directory: impl AsFd,
    path: impl AsRef<Path>,
) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", directory, path.as_ref(), flags)
}

/// Returns whether a directory lies there.
///
/// # Errors
/// Returns the error of `fstat(2)`.
pub(super) fn is_directory(place: impl AsFd) -> Result<bool, Errno> {
    let mode = rustix::fs::fstat(place)?.st_mode;
    Ok(FileType::from_raw_mode(mode) == FileType::Directory)
}
