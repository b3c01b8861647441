//! Removing trees that a sandbox may have written, and in which a process may still hold a directory open.
//!
//! Every step acts on a descriptor or on one name below it, and follows no link. Each directory is moved up to
//! the tree's root before it is emptied. So a tree may be deeper than a path is long or a process has descriptors,
//! and a file system that is mounted in it is never entered: its mount point cannot be moved.

pub mod tree;

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::fs::{fstat, open, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

/// How often a directory is emptied that somebody else fills at the same time.
const PASSES: usize = 4;
const ENTERED: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes a file or a tree, whatever its permissions are. A missing one counts as removed. Only the directory that
/// it lies in is reached by its path, and has to be one that no sandbox can replace.
///
/// # Errors
/// Returns the error of the call that failed; `DirectoryNotEmpty` for a tree in which somebody keeps making files.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let name = CString::new(name.as_bytes())?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = match open(parent.unwrap_or(Path::new(".")), flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        opened => opened?,
    };
    let kind = match statat(&above, &name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => FileType::from_raw_mode(found?.st_mode),
    };
    if kind != FileType::Directory {
        return Ok(unlinkat(&above, &name, AtFlags::empty())?);
    }
    let mut tree = Tree { root: enter(&above, &name)?, moved: 0, waiting: Vec::new() };
    tree.remove()?;
    Ok(unlinkat(&above, &name, AtFlags::REMOVEDIR)?)
}

/// A tree that is being removed.
struct Tree {
    root: OwnedFd,
    /// The number that the next directory gets as its name in the root.
    moved: u64,
    /// Directories in the root that are still to be emptied.
    waiting: Vec<CString>,
}

impl Tree {
    fn remove(&mut self) -> io::Result<()> {
        for _ in 0..PASSES {
            let root = openat(&self.root, c".", ENTERED, Mode::empty())?;
            self.empty(&root)?;
            while let Some(name) = self.waiting.pop() {
                self.remove_directory(&name)?;
            }
            if names(&self.root)?.is_empty() {
                return Ok(());
            }
        }
        Err(io::ErrorKind::DirectoryNotEmpty.into())
    }

    /// Removes a directory in the root. What lies below it waits in the root afterwards.
    fn remove_directory(&mut self, name: &CStr) -> io::Result<()> {
        for _ in 0..PASSES {
            let directory = match enter(&self.root, name) {
                // Somebody else put something else there, which the next skip the root removes.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
                entered => entered?,
            };
            self.empty(&directory)?;
            match unlinkat(&self.root, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
                removed => return Ok(removed?),
            }
        }
        Err(io::ErrorKind::DirectoryNotEmpty.into())
    }

    /// Unlinks the files of a directory, and moves its directories to the root.
    fn empty(&mut self, directory: &OwnedFd) -> io::Result<()> {
        for name in names(directory)? {
            match unlinkat(directory, &name, AtFlags::empty()) {
                Err(Errno::ISDIR) => self.move_up(directory, &name)?,
                Err(Errno::NOENT) => {}
                unlinked => unlinked?,
            }
        }
        Ok(())
    }

    fn move_up(&mut self, from: &OwnedFd, name: &CStr) -> io::Result<()> {
        // Moving a directory writes to it, too: its `..`.
        match enter(from, name) {
            // Somebody else put something else there, which the next pass removes.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            entered => drop(entered?),
        }
        loop {
            let to = CString::new(format!(".gone-{}", self.moved))?;
            self.moved += 1;
            match renameat_with(from, name, &self.root, &to, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    self.waiting.push(to);
                    return Ok(());
                }
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// Opens a directory below another one, and gives its owner the permissions to empty it.
fn enter(above: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let directory = openat(above, name, ENTERED, Mode::empty())?;
    let mode = fstat(&directory)?.st_mode;
    if mode & 0o700 != 0o700 {
        rustix::fs::chmod(path_of(&directory), Mode::RWXU)?;
    }
    Ok(directory)
}

/// Returns the names in a directory.
fn names(directory: &OwnedFd) -> io::Result<Vec<CString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(listed)? {
        let entry = entry?;
        if entry.file_name() != c"." && entry.file_name() != c".." {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Returns a path that leads to what a descriptor is open on, and nowhere else.
fn path_of(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Removes the files of a directory and keeps the directory.
///
/// # Errors
/// Returns the errors of [`remove_tree`], and the error of reading the directory.
pub fn empty_directory(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        remove_tree(&entry?.path())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
