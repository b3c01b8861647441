//! Writing to a protected directory of the host.
//!
//! What is written is a new file under another name, which changes places with the old one. Then the
//! old one is looked at: if it is not what it was at the start, both change back.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use pinfold_host::file_id::Moment;
use pinfold_trees::tree::{ACCESS_LIST, Tree, access_list, directory_at, names, node_at};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, XattrFlags, renameat_with, unlinkat};
use rustix::io::Errno;

use super::changes::File;
use super::{Content, Entry};
use crate::git::committed::Kind;

/// The directory on the host.
pub(super) struct Target<'a> {
    pub(super) tree: &'a Tree,
    /// Who gets what is new.
    pub(super) owner: (u32, u32),
    /// Tells this session's temporary files from others'.
    pub(super) session: &'a str,
}

/// What the host has to have at a path.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected<'a> {
    Nothing,
    /// What was copied at the start.
    Start(&'a Entry),
    /// What was read a moment ago.
    Read(&'a File),
}

/// Why something was not written.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The host changed it since the start.
    Changed,
    System(Errno),
}

impl From<Errno> for Refused {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl Target<'_> {
    /// Writes a file or link.
    ///
    /// # Errors
    /// Returns that the host has something else there than expected, or the error of the call that failed.
    pub(super) fn put(
        &self,
        path: &Path,
        file: &File,
        expected: Expected<'_>,
    ) -> Result<(), Refused> {
        let name = path.file_name().ok_or(Errno::INVAL)?;
        let above = self.make_above(path)?;
        let old = node_at(&above, name)?;
        if old.is_none() != matches!(expected, Expected::Nothing) {
            return Err(Refused::Changed);
        }
        if let Expected::Start(entry) = expected
            && Moment::at(&above, name)? != entry.host
        {
            return Err(Refused::Changed);
        }
        let new = self.temporary(name);
        let (uid, gid) = old.map_or(self.owner, |old| old.owner);
        self.write(&above, &new, file, uid, gid)?;
        if matches!(expected, Expected::Start(_)) {
            self.keep_permissions(path, file, &path.with_file_name(&new))?;
        }
        let done = match expected {
            Expected::Nothing => {
                let renamed = renameat_with(&above, &new, &above, name, RenameFlags::NOREPLACE);
                renamed.map_err(|errno| match errno {
                    Errno::EXIST => Refused::Changed,
                    errno => Refused::System(errno),
                })
            }
            Expected::Start(entry) => exchange(self.tree, &above, &new, name, path, &entry.content),
            Expected::Read(read) => exchange(self.tree, &above, &new, name, path, &read.content()),
        };
        let left = unlinkat(&above, &new, AtFlags::empty());
        done.and(match left {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        })
    }

    /// Removes a file or link, and the directories below the top that are empty then.
    ///
    /// # Errors
    /// Returns the errors of [`Self::put`].
    pub(super) fn remove(&self, path: &Path, entry: &Entry) -> Result<(), Refused> {
        let (above, name) = match self.tree.above(path) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            found => found?,
        };
        match Moment::at(&above, name) {
            Err(Errno::NOENT) => return Ok(()),
            Ok(now) if now == entry.host => {}
            _ => return Err(Refused::Changed),
        }
        let aside = self.temporary(name);
        renameat_with(&above, name, &above, &aside, RenameFlags::NOREPLACE)?;
        let moved = path.with_file_name(&aside);
        if File::read(self.tree, &moved).map(|file| file.content()).as_ref() != Some(&entry.content)
        {
            renameat_with(&above, &aside, &above, name, RenameFlags::NOREPLACE)?;
            return Err(Refused::Changed);
        }
        unlinkat(&above, &aside, AtFlags::empty())?;
        for directory in path.ancestors().skip(1).filter(|path| !path.as_os_str().is_empty()) {
            let removed = self
                .tree
                .above(directory)
                .and_then(|(above, name)| unlinkat(above, name, AtFlags::REMOVEDIR));
            if removed.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Opens the directory that a path lies in, and makes what is missing of it.
    fn make_above(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let mut here = self.tree.directory(Path::new(""))?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { return Err(Errno::INVAL) };
            here = match directory_at(&here, part) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(&here, part, Mode::from_raw_mode(0o777))?;
                    let made = directory_at(&here, part)?;
                    self.give(&made)?;
                    made
                }
                opened => opened?,
            };
        }
        Ok(here)
    }

    /// Takes over an empty directory that the session made as a placeholder: it stays.
    ///
    /// # Errors
    /// Returns the error of `fchown(2)` or `fchmod(2)`.
    pub(super) fn adopt_top(&self) -> Result<(), Errno> {
        let top = self.tree.directory(Path::new(""))?;
        if names(&top)?.is_empty() {
            self.give(&top)?;
            rustix::fs::fchmod(&top, Mode::from_raw_mode(0o755))?;
        }
        Ok(())
    }

    fn give(&self, file: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fchown(file, owner(self.owner.0), group(self.owner.1))
    }

    fn temporary(&self, name: &OsStr) -> OsString {
        // A name of 255 bytes is the longest that there is.
        let name = &name.as_bytes()[..name.len().min(150)];
        [
            OsStr::new(".pinfold-"),
            OsStr::new(self.session),
            OsStr::new("-"),
            OsStr::from_bytes(name),
        ]
        .into_iter()
        .collect()
    }

    fn write(
        &self,
        above: &OwnedFd,
        name: &OsStr,
        file: &File,
        uid: u32,
        gid: u32,
    ) -> Result<(), Refused> {
        // What an interrupted attempt left.
        let _ = unlinkat(above, name, AtFlags::empty());
        if file.kind == Kind::Link {
            rustix::fs::symlinkat(OsStr::from_bytes(&file.bytes), above, name)?;
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            return Ok(rustix::fs::chownat(above, name, owner(uid), group(gid), flags)?);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // The kernel takes the user's umask from it.
        let opened = rustix::fs::openat(above, name, flags, Mode::from_raw_mode(0o666))?;
        let masked = rustix::fs::fstat(&opened)?.st_mode & 0o777;
        let mut new = std::fs::File::from(opened);
        new.write_all(&file.bytes)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        rustix::fs::fchown(&new, owner(uid), group(gid))?;
        Ok(rustix::fs::fchmod(&new, Mode::from_raw_mode(with_kind(masked, file.kind)))?)
    }

    /// Gives a new file the permissions and the access control list of the old one.
    fn keep_permissions(&self, old: &Path, file: &File, new: &Path) -> Result<(), Refused> {
        let (Ok(old), Ok(new)) = (self.tree.file(old), self.tree.file(new)) else { return Ok(()) };
        let mode = rustix::fs::fstat(&old)?.st_mode & 0o777;
        if let Some(list) = access_list(&old)? {
            rustix::fs::fsetxattr(&new, ACCESS_LIST, &list, XattrFlags::empty())?;
        }
        Ok(rustix::fs::fchmod(&new, Mode::from_raw_mode(with_kind(mode, file.kind)))?)
    }
}

/// Puts a new file in the place of an old one that has to hold this.
fn exchange(
    tree: &Tree,
    above: &OwnedFd,
    new: &OsStr,
    name: &OsStr,
    path: &Path,
    content: &Content,
) -> Result<(), Refused> {
    let swap = || renameat_with(above.as_fd(), new, above.as_fd(), name, RenameFlags::EXCHANGE);
    swap()?;
    let old = File::read(tree, &path.with_file_name(new)).map(|file| file.content());
    if old.as_ref() == Some(content) {
        return Ok(());
    }
    swap()?;
    Err(Refused::Changed)
}

/// Returns permission bits for this kind of file: who may read it may execute it, as git makes it.
fn with_kind(mode: u32, kind: Kind) -> u32 {
    match kind {
        Kind::Executable => mode | (mode & 0o444) >> 2,
        Kind::File | Kind::Link => mode & !0o111,
    }
}

fn owner(id: u32) -> Option<rustix::fs::Uid> {
    Some(rustix::fs::Uid::from_raw(id))
}

fn group(id: u32) -> Option<rustix::fs::Gid> {
    Some(rustix::fs::Gid::from_raw(id))
}
