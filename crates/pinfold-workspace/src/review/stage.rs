//! What is taken over, staged on the disk where it will lie: the layer's own files where they are on
//! the same disk, or else copies.
//!
//! Everything that can fail for want of space or rights fails here, before the workspace is
//! changed: afterwards there are only renames.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use pinfold_host::beneath::open_directory;
use pinfold_trees::tree::{
    ACCESS_LIST, Node, Tree, access_list, attributes, directory_at, has_notes, names,
};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, XattrFlags};
use rustix::io::Errno;

use super::changes::{Change, What};
use super::journal::{give, written};

/// For utimensat(2).
const NOW: Timestamps = {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    Timestamps { last_access: now, last_modification: now }
};

/// Where the directory of staged files of a session may lie.
pub(crate) struct Places<'a> {
    /// It is made here, and stays where it cannot be moved.
    workspace: &'a Tree,
    session: &'a str,
    /// pinfold's own directory of the session, which no sandbox can write. Another session may be live in the workspace, and
    /// would change what is staged there.
    own: OwnedFd,
}

/// The directory of staged files of one session.
pub(crate) struct Staging<'a> {
    places: Places<'a>,
    directory: OwnedFd,
    next: usize,
    /// Whether files of the layer can be staged as they are.
    on_one_disk: bool,
    /// Where the first of several hard links was staged.
    links: HashMap<(u64, u64), usize>,
}

/// The directory's name among pinfold's own files.
const STAGED: &str = "staged";

impl<'a> Places<'a> {
    /// Returns both places. `own` is pinfold's own directory of the session.
    ///
    /// # Errors
    /// Returns the error of `openat(2)`.
    pub(crate) fn of(workspace: &'a Tree, session: &'a str, own: &Path) -> io::Result<Self> {
        Ok(Self { workspace, session, own: open_directory(own)? })
    }

    fn both(&self) -> [(BorrowedFd<'_>, String); 2] {
        [(self.own.as_fd(), STAGED.to_owned()), (self.workspace.root(), self.first_name())]
    }

    fn first_name(&self) -> String {
        format!(".pinfold-{}", self.session)
    }

    /// Returns what an earlier process staged for the session, if anything.
    ///
    /// # Errors
    /// Returns the error of `openat(2)`.
    pub(crate) fn find(&self) -> io::Result<Option<OwnedFd>> {
        for (above, name) in self.both() {
            if let Some(found) = found(above, &name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Removes what an earlier process staged for the session.
    ///
    /// # Errors
    /// Returns the error of `unlink(2)`.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for (above, name) in self.both() {
            let Some(directory) = found(above, &name)? else { continue };
            for file in names(&directory)? {
                rustix::fs::unlinkat(&directory, &file, AtFlags::empty())?;
            }
            rustix::fs::unlinkat(above, Path::new(&name), AtFlags::REMOVEDIR)?;
        }
        Ok(())
    }
}

fn found(above: BorrowedFd<'_>, name: &str) -> io::Result<Option<OwnedFd>> {
    match directory_at(above, OsStr::new(name)) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

impl<'a> Staging<'a> {
    /// Makes an empty one. It is made in the workspace, whose group and lists it inherits, and moved to pinfold's own directory
    /// where that is on the same disk. Files of a layer that is not at rest are copied: a program that still runs could set a
    /// bit such as set-user-ID on the layer's own file after it was staged.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub(crate) fn make(places: Places<'a>, upper: &Tree, is_at_rest: bool) -> io::Result<Self> {
        places.clear()?;
        let disk = |tree: &Tree| tree.node_of_root().map(|node| node.inode.0);
        let on_one_disk = is_at_rest && disk(places.workspace)? == disk(upper)?;
        let (root, name) = (places.workspace.root(), places.first_name());
        rustix::fs::mkdirat(root, &name, Mode::from_raw_mode(0o700))?;
        let directory = directory_at(root, OsStr::new(&name))?;
        match rustix::fs::renameat(root, &name, &places.own, STAGED) {
            // Another mount or disk, or a quota of its own.
            Ok(()) | Err(Errno::XDEV) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(Self { places, directory, next: 0, on_one_disk, links: HashMap::new() })
    }

    /// Stages what a change left at its path, and gives its number.
    ///
    /// # Errors
    /// Returns the error of reading and writing, such as `ENOSPC`.
    pub(crate) fn add(&mut self, upper: &Tree, change: &Change, after: &Node) -> io::Result<usize> {
        let number = self.next;
        self.next += 1;
        let name = number.to_string();
        if after.kind == FileType::Symlink {
            let target = upper.link(&change.path)?;
            rustix::fs::symlinkat(&target, &self.directory, &name)?;
            self.own_link(&name, after)?;
            return Ok(number);
        }
        if after.links > 1 {
            if let Some(first) = self.links.get(&after.inode) {
                let first = first.to_string();
                let flags = AtFlags::empty();
                rustix::fs::linkat(&self.directory, &first, &self.directory, &name, flags)?;
                return Ok(number);
            }
            self.links.insert(after.inode, number);
        }
        let mode = Mode::from_raw_mode(mode_of(change, after));
        let from = upper.file(&change.path)?;
        let list = self.access_list(change, &from)?;
        if !has_notes(&from)? && self.link(upper, &change.path, &name)? {
            // A program that builds what is newer than its product has not seen it yet.
            rustix::fs::futimens(&from, &NOW)?;
            set_access_list(&from, list.as_deref())?;
            rustix::fs::fchmod(&from, mode)?;
            return Ok(number);
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let closed = Mode::from_raw_mode(0o600);
        let to = File::from(rustix::fs::openat(&self.directory, &name, flags, closed)?);
        copy(&from, &to, after.size)?;
        give(&to, &written(attributes(&from)?), after.owner)?;
        set_access_list(&to, list.as_deref())?;
        rustix::fs::fchmod(&to, mode)?;
        Ok(number)
    }

    /// Returns the access control list of what is put in place: a file keeps the one that it has, whose
    /// users the sandbox does not know, and a new one has what it inherited. Without its list the mode
    /// of a file would say something else: the bits of the group are the most that the list gives.
    fn access_list(&self, change: &Change, new: &File) -> io::Result<Option<Vec<u8>>> {
        let is_file = |node: &Node| node.kind == FileType::RegularFile;
        if !change.before.as_ref().is_some_and(is_file) {
            return Ok(access_list(new)?);
        }
        match self.places.workspace.file(&change.path) {
            Ok(old) => Ok(access_list(&old)?),
            // Its owner closed it to everybody; if it has gone, that is reported later.
            Err(Errno::ACCESS | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Stages the layer's own file, where layer and workspace lie on one file system: nobody
    /// writes to the layer any more. False where it has to be copied.
    fn link(&self, upper: &Tree, path: &Path, name: &str) -> io::Result<bool> {
        if !self.on_one_disk {
            return Ok(false);
        }
        let (above, from) = upper.above(path)?;
        match rustix::fs::linkat(above, from, &self.directory, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            // Another mount of it, too many links, or a file system without any.
            Err(Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn own_link(&self, name: &str, after: &Node) -> io::Result<()> {
        use rustix::fs::{Gid, Uid, chownat};
        if rustix::process::geteuid().is_root() {
            let (uid, gid) = (Uid::from_raw(after.owner.0), Gid::from_raw(after.owner.1));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            chownat(&self.directory, name, Some(uid), Some(gid), flags)?;
        }
        Ok(())
    }

    /// Returns the directory.
    pub(crate) fn directory(&self) -> &OwnedFd {
        &self.directory
    }

    /// Removes what was staged.
    ///
    /// # Errors
    /// Returns the error of `unlink(2)`.
    pub(crate) fn remove(self) -> io::Result<()> {
        self.places.clear()
    }
}

/// Returns no change brings a program that runs with its owner's rights; one that had them keeps them as
/// long as it holds the same.
fn mode_of(change: &Change, after: &Node) -> u32 {
    let kept = match (&change.before, change.what) {
        (Some(before), What::Mode) => before.mode & 0o6000,
        _ => 0,
    };
    after.mode & (0o777 | kept)
}

fn set_access_list(place: &File, list: Option<&[u8]>) -> Result<(), Errno> {
    let set = match list {
        Some(list) => rustix::fs::fsetxattr(place, ACCESS_LIST, list, XattrFlags::empty()),
        None => rustix::fs::fremovexattr(place, ACCESS_LIST),
    };
    match set {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        set => set,
    }
}

/// Copies a file with its holes (lseek(2), "Seeking file data and holes").
fn copy(mut from: &File, mut to: &File, size: u64) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let seek = |from: &File, position| rustix::fs::seek(from.as_fd(), position);
        let start = match seek(from, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = seek(from, rustix::fs::SeekFrom::Hole(start))?;
        from.seek(SeekFrom::Start(start))?;
        to.seek(SeekFrom::Start(start))?;
        io::copy(&mut io::Read::take(from, end - start), &mut to)?;
        at = end;
    }
    to.set_len(size)
}
