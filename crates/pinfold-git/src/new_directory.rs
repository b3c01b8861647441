//! A directory that is filled by descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid, mkdirat, openat};

use crate::opened::held;

/// A new directory in a workspace, held open: another session there can put a link in the place of
/// any name, but what is written goes to this very directory.
#[derive(Debug)]
pub struct NewDirectory {
    opened: OwnedFd,
    /// Whose it is to be, where that is not the caller.
    owner: Option<(u32, u32)>,
}

impl NewDirectory {
    /// Makes a directory in another one.
    ///
    /// # Errors
    /// Returns the error of the call that failed, or that another directory took its place.
    pub fn below(
        above: &OwnedFd,
        name: impl AsRef<Path>,
        owner: Option<(u32, u32)>,
    ) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = name.as_ref();
        mkdirat(above, name, Mode::from_raw_mode(0o777))?;
        let opened = openat(above, name, flags, Mode::empty())?;
        let is_empty = fs::read_dir(held(&opened))?.next().is_none();
        let found = rustix::fs::fstat(&opened)?;
        if !is_empty || found.st_uid != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("another directory took its place"));
        }
        give(&opened, owner)?;
        Ok(Self { opened, owner })
    }

    /// Makes a directory in it.
    ///
    /// # Errors
    /// Returns the errors of [`Self::below`].
    pub fn directory(&self, name: &str) -> io::Result<Self> {
        Self::below(&self.opened, name, self.owner)
    }

    /// Makes a file in it.
    ///
    /// # Errors
    /// Returns the error of `openat(2)` or `fchown(2)`.
    pub fn file(&self, name: &str, mode: u32) -> io::Result<File> {
        Self::file_in(&self.opened, name, mode, self.owner)
    }

    /// Makes a file in a directory.
    ///
    /// # Errors
    /// Returns the errors of [`Self::file`].
    pub fn file_in(
        directory: &OwnedFd,
        name: &str,
        mode: u32,
        owner: Option<(u32, u32)>,
    ) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(directory, name, flags, Mode::from_raw_mode(mode))?;
        give(&made, owner)?;
        Ok(File::from(made))
    }
}

fn give(made: &OwnedFd, owner: Option<(u32, u32)>) -> io::Result<()> {
    let Some((uid, gid)) = owner else { return Ok(()) };
    rustix::fs::fchown(made, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use pinfold_host::beneath::open_directory;

    use super::*;

    #[test]
    fn nothing_is_written_through_a_link_that_took_a_place() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("work")).unwrap();
        fs::create_dir_all(top.join("elsewhere/objects")).unwrap();
        let above = open_directory(&top.join("work")).unwrap();
        let new = NewDirectory::below(&above, "new", None).unwrap();
        let objects = new.directory("objects").unwrap();
        fs::rename(top.join("work/new"), top.join("work/moved")).unwrap();
        symlink(top.join("elsewhere"), top.join("work/new")).unwrap();
        new.file("config", 0o644).unwrap();
        objects.directory("pack").unwrap();
        assert!(NewDirectory::below(&above, "new", None).is_err());
        assert_eq!(fs::read_dir(top.join("elsewhere")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(top.join("elsewhere/objects")).unwrap().count(), 0);
        assert!(top.join("work/moved/config").exists());
        symlink(top.join("elsewhere/config"), top.join("work/moved/HEAD")).unwrap();
        assert!(new.file("HEAD", 0o644).is_err());
    }
}
