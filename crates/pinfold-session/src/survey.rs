//! Walking over a granted directory, before the command starts and after everything ended.
//!
//! The walk goes by descriptors and follows no link. It remembers when each directory last
//! changed, so that the second walk reads only those that did: the kernel sets a change time
//! itself, and nobody can set it back.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use rustix::io::Errno;

/// The entries of one directory.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    path: Vec<u8>,
    names: Vec<u8>,
    entries: Vec<(usize, usize, FileType, u64)>,
}

impl Listing {
    /// The directory's path relative to the walk's root; empty for the root.
    pub(crate) fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    /// Name and kind of each entry; a link is a link.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], FileType)> {
        self.entries.iter().map(|(start, end, kind, _)| (&self.names[*start..*end], *kind))
    }

    /// Name, kind and inode number of each entry, as the directory has them (`d_ino`, readdir(3)).
    pub(crate) fn inodes(&self) -> impl Iterator<Item = (&[u8], FileType, u64)> {
        let entry = |(start, end, kind, inode): &(usize, usize, FileType, u64)| {
            (&self.names[*start..*end], *kind, *inode)
        };
        self.entries.iter().map(entry)
    }

    /// What lies at a name, if anything does.
    pub(crate) fn kind(&self, name: &[u8]) -> Option<FileType> {
        self.entries().find(|(found, _)| *found == name).map(|(_, kind)| kind)
    }
}

/// A directory as it was seen, with the visitor's note about it.
#[derive(Debug, Clone)]
struct Seen<Z> {
    /// Relative to the walk's root; empty for the root.
    path: Vec<u8>,
    state: State,
    zone: Z,
}

/// Which directory it is, and the last change of its inode.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    inode: (u64, u64),
    changed: (i64, u64),
}

impl State {
    #[expect(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "their types differ between architectures"
    )]
    fn of(stat: &Stat) -> Self {
        Self {
            inode: (stat.st_dev.into(), stat.st_ino.into()),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as u64),
        }
    }
}

/// What a walk saw.
#[derive(Debug, Default)]
pub(crate) struct Walk<Z> {
    /// The directories that it entered.
    seen: Vec<Seen<Z>>,
    /// Those that it could not read, relative to its root.
    unreadable: Vec<Vec<u8>>,
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a granted directory as the boundary does that mounts it: following no link on the way.
fn open_root(root: &Path) -> Result<OwnedFd, Errno> {
    let how = ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(rustix::fs::CWD, root, DIRECTORY, Mode::empty(), how)
}

/// What visits each directory: it gets the entries and the zone that was given to the directory,
/// and names the directories to walk into with a zone for each.
pub(crate) type Visit<'a, Z> = dyn FnMut(&Listing, Z, &mut Vec<(Vec<u8>, Z)>) + 'a;

/// Walks everything beneath `root`. Directories that the user may not read hold nothing that the
/// inside could read, so they are passed over; so are those that vanish meanwhile.
///
/// # Errors
/// What opening a directory says; `ENAMETOOLONG` for a tree of more than [`DEEPEST`] levels.
pub(crate) fn walk<Z: Copy>(
    root: &Path,
    zone: Z,
    visit: &mut Visit<'_, Z>,
) -> Result<Walk<Z>, Errno> {
    let root = open_root(root)?;
    let mut walker = Walker::new(visit);
    walker.directory(root, Vec::new(), zone)?;
    Ok(Walk { seen: walker.seen, unreadable: walker.unreadable })
}

/// Walks again over what an earlier walk saw: visits the directories that changed since, and
/// everything in directories that are new. Returns the directories that can no longer be read:
/// what is in them nobody knows, yet a program that is told a name in them finds it.
///
/// # Errors
/// As [`walk`].
pub(crate) fn walk_changed<Z: Copy>(
    root: &Path,
    before: &Walk<Z>,
    visit: &mut Visit<'_, Z>,
) -> Result<Vec<PathBuf>, Errno> {
    let root = open_root(root)?;
    let known: HashSet<&[u8]> = before.seen.iter().map(|seen| seen.path.as_slice()).collect();
    let mut walker = Walker::new(visit);
    for before in &before.seen {
        let path: &[u8] = if before.path.is_empty() { b"." } else { &before.path };
        let now = rustix::fs::statat(&root, path, AtFlags::SYMLINK_NOFOLLOW);
        if now.is_ok_and(|now| State::of(&now) == before.state) {
            continue;
        }
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let directory = match rustix::fs::openat2(&root, path, DIRECTORY, Mode::empty(), how) {
            Ok(directory) => directory,
            Err(errno) if is_passed_over(errno) => {
                walker.passed_over(before.path.clone(), errno);
                continue;
            }
            Err(errno) => return Err(errno),
        };
        let below = walker.visit(&directory, &before.path, before.zone)?;
        for (name, zone) in below {
            let child = joined(&before.path, &name);
            if !known.contains(child.as_slice()) {
                walker.enter(&directory, &name, child, zone)?;
            }
        }
    }
    let unreadable = walker.unreadable.into_iter().filter(|path| !before.unreadable.contains(path));
    Ok(unreadable.map(|path| PathBuf::from(OsString::from_vec(path))).collect())
}

/// Bytes of entries that the kernel hands over at once.
const BUFFER: usize = 32 * 1024;
/// A descriptor is held for each level on the way down. A tree that is deeper is refused: what
/// was not looked at cannot be protected.
const DEEPEST: usize = 256;

struct Walker<'a, 'b, Z> {
    visit: &'a mut Visit<'b, Z>,
    buffer: Vec<MaybeUninit<u8>>,
    listing: Listing,
    seen: Vec<Seen<Z>>,
    unreadable: Vec<Vec<u8>>,
    depth: usize,
}

impl<'a, 'b, Z: Copy> Walker<'a, 'b, Z> {
    fn new(visit: &'a mut Visit<'b, Z>) -> Self {
        let buffer = vec![MaybeUninit::uninit(); BUFFER];
        let (listing, seen, unreadable) = (Listing::default(), Vec::new(), Vec::new());
        Self { visit, buffer, listing, seen, unreadable, depth: 0 }
    }

    fn passed_over(&mut self, path: Vec<u8>, errno: Errno) {
        if errno == Errno::ACCESS {
            self.unreadable.push(path);
        }
    }

    fn directory(&mut self, directory: OwnedFd, path: Vec<u8>, zone: Z) -> Result<(), Errno> {
        let state = State::of(&rustix::fs::fstat(&directory)?);
        let below = self.visit(&directory, &path, zone)?;
        for (name, zone) in below {
            let child = joined(&path, &name);
            self.enter(&directory, &name, child, zone)?;
        }
        self.seen.push(Seen { path, state, zone });
        Ok(())
    }

    fn enter(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        path: Vec<u8>,
        zone: Z,
    ) -> Result<(), Errno> {
        if self.depth == DEEPEST {
            return Err(Errno::NAMETOOLONG);
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.depth += 1;
        let entered = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
            Ok(opened) => self.directory(opened, path, zone),
            Err(errno) if is_passed_over(errno) => {
                self.passed_over(path, errno);
                Ok(())
            }
            Err(errno) => Err(errno),
        };
        self.depth -= 1;
        entered
    }

    /// Lists a directory, shows it to the visitor, and returns what to walk into.
    fn visit(
        &mut self,
        directory: &OwnedFd,
        path: &[u8],
        zone: Z,
    ) -> Result<Vec<(Vec<u8>, Z)>, Errno> {
        let Listing { path: shown, names, entries } = &mut self.listing;
        shown.clear();
        shown.extend_from_slice(path);
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
            entries.push((start, names.len(), kind, entry.ino()));
        }
        let mut below = Vec::new();
        (self.visit)(&self.listing, zone, &mut below);
        Ok(below)
    }
}

/// What may not be read holds nothing that the inside reads; what is gone is gone.
fn is_passed_over(errno: Errno) -> bool {
    matches!(errno, Errno::ACCESS | Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

/// Some file systems do not say in the entry what it is.
fn kind_of(directory: &OwnedFd, name: &[u8]) -> FileType {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}

fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(parent.len() + name.len() + 1);
    path.extend_from_slice(parent);
    if !parent.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Joins a relative path to the walk's root.
pub(crate) fn beneath(root: &Path, relative: &Path) -> PathBuf {
    if relative.as_os_str().is_empty() { root.to_owned() } else { root.join(relative) }
}
