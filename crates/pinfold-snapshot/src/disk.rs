//! What a tree holds of a disk, and what is left of the disk for others.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};

/// What is always left of a disk, in bytes, and of its index nodes. On a small disk it is less.
const LEFT_BYTES: u64 = 1 << 30;
const LEFT_NODES: u64 = 65_536;
/// The part of a small disk that is left.
const PART: u64 = 20;
/// Each name counts as much at least: an empty file is not nothing.
const SMALLEST: u64 = 4096;
/// How deep a tree is looked at. What lies deeper is no system's; each level takes a descriptor.
const DEEPEST: usize = 200;
/// What st_blocks counts in, whatever the file system (stat(3type)).
const BLOCK: u64 = 512;

/// The numbers of a file system (statvfs(3)).
#[derive(Debug, Clone, Copy)]
pub struct Disk {
    /// Bytes that are in use.
    pub used: u64,
    /// Bytes that this user may still write.
    pub free: u64,
    size: u64,
    nodes: u64,
    free_nodes: u64,
}

impl Disk {
    /// Returns the file system that a file or directory lies on.
    ///
    /// # Errors
    /// Returns the error of `statvfs(3)`.
    pub fn of(path: &Path) -> io::Result<Self> {
        Ok(Self::from(rustix::fs::statvfs(path)?))
    }

    /// Returns the same for an open file.
    ///
    /// # Errors
    /// Returns the error of `fstatvfs(3)`.
    pub fn of_file(file: impl AsFd) -> io::Result<Self> {
        Ok(Self::from(rustix::fs::fstatvfs(file)?))
    }

    /// Returns whether so little is left that nothing more should be written: a gibibyte or a twentieth
    /// of the disk, whatever is less, stays for others.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.is_short_for(0)
    }

    /// Returns whether so little would be left with so many bytes more.
    #[must_use]
    pub fn is_short_for(&self, more: u64) -> bool {
        let bytes = LEFT_BYTES.min(self.size / PART);
        self.free.saturating_sub(more) < bytes.max(1) || self.lacks_nodes()
    }

    /// Returns whether index nodes run out. Some file systems make them as they need them, and say none.
    fn lacks_nodes(&self) -> bool {
        self.free_nodes < LEFT_NODES.min(self.nodes / PART)
    }
}

impl From<rustix::fs::StatVfs> for Disk {
    fn from(stat: rustix::fs::StatVfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Self {
            used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
            free: bytes(stat.f_bavail),
            size: bytes(stat.f_blocks),
            nodes: stat.f_files,
            free_nodes: stat.f_favail,
        }
    }
}

/// Returns bytes of the disk that a tree holds, in which somebody may be writing. No link is followed,
/// and what cannot be entered, or has gone, is left out. `goes_on` is asked for each name, with the
/// bytes so far.
///
/// # Errors
/// Returns an error for a tree that cannot be opened.
pub fn held(tree: &Path, goes_on: &dyn Fn(u64) -> bool) -> io::Result<u64> {
    let mut bytes = 0;
    let top = rustix::fs::openat(CWD, tree, DIRECTORY, Mode::empty())?;
    visit(&top, 0, &mut bytes, goes_on);
    Ok(bytes)
}

/// Returns the bytes of the disk that a file holds, or a tree with its top directory. Of a directory that cannot be
/// entered only itself is counted.
///
/// # Errors
/// Returns the error of `lstat(2)`.
pub fn occupied(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::lstat(path)?;
    let own = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK).max(SMALLEST);
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Ok(own.saturating_add(held(path, &|_| true).unwrap_or(0))),
        _ => Ok(own),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Returns whether to go on.
fn visit(
    directory: &OwnedFd,
    depth: usize,
    bytes: &mut u64,
    goes_on: &dyn Fn(u64) -> bool,
) -> bool {
    let Ok(entries) = Dir::read_from(directory) else { return true };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(is_directory) = count(directory, name, bytes) else { continue };
        if !goes_on(*bytes) {
            return false;
        }
        if is_directory
            && depth < DEEPEST
            && let Ok(below) = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())
            && !visit(&below, depth + 1, bytes, goes_on)
        {
            return false;
        }
    }
    true
}

/// Adds what one name holds; whether it is a directory's.
#[cfg_attr(
    target_arch = "x86_64",
    expect(clippy::useless_conversion, reason = "the number of names has 32 bits on aarch64")
)]
fn count(directory: &OwnedFd, name: &CStr, bytes: &mut u64) -> Option<bool> {
    let found = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let kind = FileType::from_raw_mode(found.st_mode);
    let held = u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK);
    // All names of a file lie in the tree, and together they hold it once.
    let names = if kind == FileType::RegularFile { found.st_nlink.max(1) } else { 1 };
    *bytes = bytes.saturating_add((held / u64::from(names)).max(SMALLEST));
    Some(kind == FileType::Directory)
}

#[cfg(test)]
mod tests;
