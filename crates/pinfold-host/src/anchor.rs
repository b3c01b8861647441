//! Which directory a path led to, so that what is done there later is done in that very one.
//!
//! Any process that may write in a workspace may rename a directory in it and put a link, or
//! another directory, in its place. A session keeps what it protects in place, but only against its
//! own sandbox: another session in the same checkout is not bound by that.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// A directory that was found at a path, known by its device and inode (inode(7)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl Anchor {
    /// Returns the directory at an absolute path that leads through no link.
    ///
    /// # Errors
    /// Returns the error of `openat2(2)`, with the path.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::held(path, open(CWD, path, ResolveFlags::empty()).map_err(|it| at(path, &it.into()))?)
    }

    /// Returns the directory that is open already, under the path that led to it.
    ///
    /// # Errors
    /// Returns the error of `fstat(2)`.
    pub fn held(path: &Path, directory: impl AsFd) -> io::Result<Self> {
        let stat = rustix::fs::fstat(directory)?;
        Ok(Self { path: path.to_owned(), device: stat.st_dev, inode: stat.st_ino })
    }

    /// Returns where it was.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Returns what was written down of one.
    pub fn written(path: PathBuf, (device, inode): (u64, u64)) -> Self {
        Self { path, device, inode }
    }

    /// Opens it, if it still is where it was.
    ///
    /// # Errors
    /// Returns the error of `openat2(2)`, or that another one lies there, with the path.
    pub fn open(&self) -> io::Result<OwnedFd> {
        match open(CWD, &self.path, ResolveFlags::empty()) {
            Ok(directory) if Self::held(&self.path, &directory)? == *self => Ok(directory),
            Ok(_) | Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(at(&self.path, &io::Error::other("it is not the directory that it was")))
            }
            Err(errno) => Err(at(&self.path, &errno.into())),
        }
    }

    /// Opens a directory below it, through no link; the empty path is itself.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn open_below(&self, path: &Path) -> io::Result<OwnedFd> {
        let directory = self.open()?;
        if path.as_os_str().is_empty() {
            return Ok(directory);
        }
        let opened = open(directory, path, ResolveFlags::BENEATH);
        opened.map_err(|error| at(&self.path.join(path), &error.into()))
    }

    /// Returns a directory below it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::open`].
    pub fn below(&self, path: &Path) -> io::Result<Self> {
        let directory = self.open_below(path)?;
        // Nothing to add would be a trailing slash.
        let is_itself = path.as_os_str().is_empty();
        let path = if is_itself { self.path.clone() } else { self.path.join(path) };
        Self::held(&path, directory)
    }
}

fn open(at: impl AsFd, path: &Path, how: ResolveFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let how = how | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(at, path, flags, Mode::empty(), how)
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn another_directory_in_its_place_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        fs::create_dir(&one).unwrap();
        fs::create_dir(&other).unwrap();
        let anchor = Anchor::of(&one).unwrap();
        anchor.open().unwrap();
        fs::rename(&one, dir.path().join("aside")).unwrap();
        assert_eq!(anchor.open().unwrap_err().kind(), io::ErrorKind::NotFound);
        let said = |anchor: &Anchor| anchor.open().unwrap_err().to_string();
        let expected = "one: it is not the directory that it was";
        symlink(dir.path().join("aside"), &one).unwrap();
        assert!(said(&anchor).ends_with(expected), "{}", said(&anchor));
        fs::remove_file(&one).unwrap();
        fs::rename(&other, &one).unwrap();
        assert!(said(&anchor).ends_with(expected), "{}", said(&anchor));
    }

    #[test]
    fn anchor_reaches_paths_below_it_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        let anchor = Anchor::of(dir.path()).unwrap();
        assert_eq!(anchor.below(Path::new("a/b")).unwrap().path(), dir.path().join("a/b"));
        assert_eq!(anchor.below(Path::new("")).unwrap(), anchor);
        for path in ["link/b", "../", "a/../.."] {
            anchor.below(Path::new(path)).unwrap_err();
        }
    }
}
