//! One walk over a tree, by descriptors.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_host::file_id::FileId;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::patience::Patience;

use super::again::open_to_owner;
use super::facts::{self, Facts};
use super::listing::{Entry, Listing};
use super::seen::{Obstacle, Seen, State, Unseen};

pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A directory that is visited.
pub struct Visited<'a> {
    /// Its entries, or the notable ones of them.
    pub listing: &'a Listing,
    place: Place<'a>,
    /// Whether an earlier walk found no directory or another one at its path.
    pub is_new: bool,
}

/// Where a directory is.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Open, at least as a path.
    Open(BorrowedFd<'a>),
    /// At this name. Nothing of it had to be opened, since its content is known.
    Named(BorrowedFd<'a>, &'a [u8]),
}

impl Visited<'_> {
    /// Returns the directory as a descriptor, at least as a path.
    ///
    /// # Errors
    /// Returns the error of opening it, if the walk did not open it.
    pub fn directory(&self) -> Result<Directory<'_>, Errno> {
        match self.place {
            Place::Open(directory) => Ok(Directory::Open(directory)),
            Place::Named(parent, name) => open_path(parent, name).map(Directory::OpenedNow),
        }
    }
}

/// A descriptor of a directory that is visited.
pub enum Directory<'a> {
    /// The walk's.
    Open(BorrowedFd<'a>),
    /// One that was made for the visitor.
    OpenedNow(OwnedFd),
}

impl AsFd for Directory<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Open(directory) => *directory,
            Self::OpenedNow(directory) => directory.as_fd(),
        }
    }
}

/// Opens a directory of this name as a path, following no link.
fn open_path(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

/// What visits each directory: it gets the entries and the zone that was given to the directory,
/// and names the directories to walk into with a zone for each.
pub(crate) type Visit<'a, Z> = dyn FnMut(&Visited<'_>, Z, &mut Vec<(Vec<u8>, Z)>) + 'a;

/// Bytes of entries that the kernel hands over at once.
const BUFFER: usize = 32 * 1024;
/// A descriptor is held for each level on the way down.
const DEEPEST: usize = 256;
/// Bytes of a path below the root. The second walk opens directories by their paths, which may have 4096
/// bytes (`PATH_MAX`), and so do those who mask or set aside what was found.
const LONGEST: usize = 3000;

pub(super) struct Walker<'a, 'b, Z> {
    visit: &'a mut Visit<'b, Z>,
    buffer: Box<[MaybeUninit<u8>]>,
    listing: Listing,
    pub(super) seen: Vec<Seen<Z>>,
    pub(super) unseen: Vec<Unseen>,
    depth: usize,
    /// For the second walk, what the first one could not look into.
    pub(super) before: Option<&'a [Unseen]>,
    pub(super) facts: Facts,
    /// How long the second walk may take.
    pub(super) patience: Option<&'a Patience>,
}

impl<'a, 'b, Z: Copy> Walker<'a, 'b, Z> {
    pub(super) fn new(visit: &'a mut Visit<'b, Z>, facts: Facts) -> Self {
        let buffer = Box::new_uninit_slice(BUFFER);
        let (listing, seen, unseen) = (Listing::default(), Vec::new(), Vec::new());
        let (before, patience) = (None, None);
        Self { visit, buffer, listing, seen, unseen, depth: 0, before, facts, patience }
    }

    fn skip(&mut self, parent: &OwnedFd, name: &[u8], path: Vec<u8>, why: Obstacle) {
        let path = PathBuf::from(OsString::from_vec(path));
        let unseen = Unseen { path, id: FileId::at(parent, name).ok(), why };
        // What was masked from the start is as it was.
        if !self.before.is_some_and(|before| unseen.id.is_some() && before.contains(&unseen)) {
            self.unseen.push(unseen);
        }
    }

    /// Returns whether the first walk could not look into this very directory.
    fn was_closed(&self, parent: &OwnedFd, name: &[u8], path: &[u8]) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        let closed = |before: &&Unseen| before.path == path && before.why == Obstacle::Closed;
        let before = self.before.unwrap_or_default().iter().find(closed);
        before
            .is_some_and(|before| before.id.is_some() && before.id == FileId::at(parent, name).ok())
    }

    pub(super) fn directory(
        &mut self,
        directory: OwnedFd,
        path: Vec<u8>,
        zone: Z,
    ) -> Result<(), Errno> {
        let before = facts::look(&directory)?;
        let below = self.visit(&directory, &path, zone, true)?;
        let after = facts::look(&directory)?;
        self.facts.note(&before, &after, &self.listing);
        self.below(directory, path, State::of_statx(&before), zone, below)
    }

    /// Walks into what lies in a directory that was visited and whose listing is the last one.
    fn below(
        &mut self,
        directory: OwnedFd,
        path: Vec<u8>,
        state: State,
        zone: Z,
        below: Vec<(Vec<u8>, Z)>,
    ) -> Result<(), Errno> {
        let leaves = self.leaves(&below);
        for ((name, zone), is_leaf) in below.into_iter().zip(leaves) {
            let child = joined(&path, &name);
            if !(is_leaf && self.leaf(&directory, &name, &child, zone)) {
                self.enter(&directory, &name, child, zone)?;
            }
        }
        self.seen.push(Seen { path, state, zone });
        Ok(())
    }

    /// Returns which of these directories, named in the order of the last listing, need not be opened if
    /// they are as they are known.
    fn leaves(&self, below: &[(Vec<u8>, Z)]) -> Vec<bool> {
        let mut listed = self.listing.inodes();
        let mut inode = |name: &[u8]| listed.find(|(listed, ..)| *listed == name);
        let is_leaf = |name| inode(name).is_some_and(|(.., inode)| self.facts.is_leaf(inode));
        below.iter().map(|(name, _)| name.as_slice()).map(is_leaf).collect()
    }

    /// Visits a directory that is known and has none in it. What lies at its name is looked at through no
    /// link, so its change time says the same as if it were opened. False if it has to be opened.
    fn leaf(&mut self, parent: &OwnedFd, name: &[u8], path: &[u8], zone: Z) -> bool {
        if self.depth == DEEPEST || path.len() > LONGEST {
            return false;
        }
        let Ok(found) = facts::look_at(parent, name) else { return false };
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        // What is mounted there is another directory than the one that was listed.
        let is_leaf = is_directory && self.facts.is_leaf(found.stx_ino);
        if !is_leaf || !self.facts.fill(&found, &mut self.listing) {
            return false;
        }
        let place = Place::Named(parent.as_fd(), name);
        // It has no directories.
        self.show(place, path, zone, true);
        self.seen.push(Seen { path: path.to_vec(), state: State::of_statx(&found), zone });
        true
    }

    /// Visits a directory whose entries are known from an earlier start. Returns it if it has to be
    /// opened and read.
    fn known(
        &mut self,
        directory: OwnedFd,
        path: &[u8],
        zone: Z,
    ) -> Result<Option<OwnedFd>, Errno> {
        let found = facts::look(&directory)?;
        if !self.facts.fill(&found, &mut self.listing) {
            return Ok(Some(directory));
        }
        let below = self.show(Place::Open(directory.as_fd()), path, zone, true);
        self.below(directory, path.to_vec(), State::of_statx(&found), zone, below)?;
        Ok(None)
    }

    pub(super) fn enter(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: Vec<u8>,
        zone: Z,
    ) -> Result<(), Errno> {
        if self.depth == DEEPEST || path.len() > LONGEST {
            self.skip(parent, name, path, Obstacle::TooDeep);
            return Ok(());
        }
        self.depth += 1;
        let entered = match self.open(parent, name, &path, zone) {
            Ok(None) => Ok(()),
            Ok(Some(opened)) => {
                if self.before.is_some() {
                    open_to_owner(&opened);
                }
                self.opened(opened, path, zone)
            }
            Err(Errno::ACCESS) => self.closed(parent, name, path, zone),
            Err(errno) if is_gone(errno) => Ok(()),
            Err(errno) => Err(errno),
        };
        self.depth -= 1;
        entered
    }

    /// Looks into a directory that was opened by its name. One that was removed since cannot be read, and
    /// cannot come back.
    fn opened(&mut self, directory: OwnedFd, path: Vec<u8>, zone: Z) -> Result<(), Errno> {
        match self.directory(directory, path, zone) {
            Err(Errno::NOENT) => Ok(()),
            looked => looked,
        }
    }

    /// Opens a directory for reading, unless what it holds is known and was visited.
    fn open(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: &[u8],
        zone: Z,
    ) -> Result<Option<OwnedFd>, Errno> {
        if self.facts.is_empty() {
            let flags = DIRECTORY | OFlags::NOFOLLOW;
            return rustix::fs::openat(parent, name, flags, Mode::empty()).map(Some);
        }
        let found = open_path(parent, name)?;
        let Some(unknown) = self.known(found, path, zone)? else { return Ok(None) };
        rustix::fs::openat(unknown, ".", DIRECTORY, Mode::empty()).map(Some)
    }

    /// Looks into a closed directory of the user's, if it was closed since the first walk.
    fn closed(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: Vec<u8>,
        zone: Z,
    ) -> Result<(), Errno> {
        let opens = self.before.is_some() && !self.was_closed(parent, name, &path);
        let found = open_path(parent, name).ok();
        let open = |found: OwnedFd| {
            open_to_owner(&found);
            rustix::fs::openat(found, ".", DIRECTORY, Mode::empty()).ok()
        };
        match found.filter(|_| opens).and_then(open) {
            Some(opened) => self.opened(opened, path, zone),
            None => {
                self.skip(parent, name, path, Obstacle::Closed);
                Ok(())
            }
        }
    }

    /// Lists a directory, shows it to the visitor, and returns what to walk into.
    pub(super) fn visit(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        zone: Z,
        is_new: bool,
    ) -> Result<Vec<(Vec<u8>, Z)>, Errno> {
        if self.patience.is_some_and(Patience::is_over) {
            return Err(Errno::CANCELED);
        }
        let Listing { names, entries, .. } = &mut self.listing;
        names.clear();
        entries.clear();
        let mut listed = RawDir::new(directory.as_fd(), &mut self.buffer);
        while let Some(entry) = listed.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(directory, name),
                kind => kind,
            };
            let start = names.len();
            names.extend_from_slice(name);
            entries.push(Entry { start, end: names.len(), kind, inode: entry.ino() });
        }
        Ok(self.show(Place::Open(directory.as_fd()), path, zone, is_new))
    }

    /// Shows the listing to the visitor, and returns what to walk into.
    fn show(&mut self, place: Place<'_>, path: &[u8], zone: Z, is_new: bool) -> Vec<(Vec<u8>, Z)> {
        self.listing.path.clear();
        self.listing.path.extend_from_slice(path);
        let mut below = Vec::new();
        let visited = Visited { listing: &self.listing, place, is_new };
        (self.visit)(&visited, zone, &mut below);
        below
    }
}

/// Returns whether something vanished, or became something else, while the walk went on.
pub(super) fn is_gone(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Returns what an entry is, which some file systems do not say in the entry.
fn kind_of(directory: &OwnedFd, name: &[u8]) -> FileType {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

pub(super) fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(parent.len() + name.len() + 1);
    path.extend_from_slice(parent);
    if !parent.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}
