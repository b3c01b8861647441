//! A tree that is written to, from its root's descriptor down.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::LayerError;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Directories that no entry describes.
const MODE: Mode = Mode::from_raw_mode(0o755);

pub(super) struct Tree {
    root: OwnedFd,
}

impl Tree {
    pub(super) fn open(root: &Path) -> Result<Self, LayerError> {
        let root =
            rustix::fs::open(root, DIRECTORY, Mode::empty()).map_err(LayerError::file(root))?;
        Ok(Self { root })
    }

    /// A directory; what else lies there makes way. Its owner can always write to it, or what
    /// comes later could not be put there.
    pub(super) fn directory(&self, path: &Path, mode: u32) -> Result<(), LayerError> {
        let mode = Mode::from_raw_mode(mode | 0o700);
        self.make_way(path, Kind::Directory)?;
        let (above, name) = self.above(path)?;
        match rustix::fs::mkdirat(&above, name, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(LayerError::file(path)(errno)),
        }
        // The mask of the process has no say.
        self.change_mode(path, mode)
    }

    /// Returns a new, empty file, in place of what lies there.
    pub(super) fn file(&self, path: &Path, mode: u32) -> Result<File, LayerError> {
        self.make_way(path, Kind::Other)?;
        let (above, name) = self.above(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(mode | 0o400);
        let made = rustix::fs::openat(above, name, flags, mode).and_then(|file| {
            rustix::fs::fchmod(&file, mode)?;
            Ok(File::from(file))
        });
        made.map_err(LayerError::file(path))
    }

    /// A symbolic link. Where it leads is of no importance: nothing here follows it out.
    pub(super) fn symlink(&self, path: &Path, target: &[u8]) -> Result<(), LayerError> {
        self.make_way(path, Kind::Other)?;
        let (above, name) = self.above(path)?;
        rustix::fs::symlinkat(target, above, name).map_err(LayerError::file(path))
    }

    /// A second name of a file of the tree. A link is given one as such.
    pub(super) fn hard_link(&self, path: &Path, to: &Path) -> Result<(), LayerError> {
        let refused = |why| LayerError::refused(path.as_os_str().as_bytes(), why);
        let gone = || refused("which is a second name of a file that is not there");
        let (to_above, to_name) = self.above_if_there(to).ok_or_else(gone)?;
        let kind = kind_of(&to_above, to_name).map_err(|_| gone())?;
        if kind == FileType::Directory {
            return Err(refused("which is a second name of a directory"));
        }
        if path == to {
            return Ok(());
        }
        self.make_way(path, Kind::Other)?;
        let (above, name) = self.above(path)?;
        rustix::fs::linkat(to_above, to_name, above, name, AtFlags::empty())
            .map_err(LayerError::file(path))
    }

    /// Removes what lies there, but nothing of `own`.
    pub(super) fn remove(&self, path: &Path, own: &BTreeSet<PathBuf>) -> Result<(), LayerError> {
        match (path.file_name(), own.contains(path)) {
            (Some(_), true) => self.empty(path, own),
            (Some(_), false) if !holds_own(path, own) => self.take(path),
            (Some(_), false) => self.empty(path, own),
            (None, _) => Ok(()),
        }
    }

    /// Removes everything in a directory, but nothing of `own`.
    pub(super) fn empty(&self, path: &Path, own: &BTreeSet<PathBuf>) -> Result<(), LayerError> {
        let Ok(names) = self.names(path) else { return Ok(()) };
        for name in names {
            self.remove(&path.join(name), own)?;
        }
        Ok(())
    }

    /// Removes what would be in the way of a new entry.
    fn make_way(&self, path: &Path, new: Kind) -> Result<(), LayerError> {
        let Some((above, name)) = self.above_if_there(path) else { return Ok(()) };
        match (kind_of(&above, name), new) {
            (Ok(FileType::Directory), Kind::Directory) | (Err(Errno::NOENT), _) => Ok(()),
            (Ok(_), _) => self.take(path),
            (Err(errno), _) => Err(LayerError::file(path)(errno)),
        }
    }

    /// Removes a file, or a directory with everything in it.
    fn take(&self, path: &Path) -> Result<(), LayerError> {
        let Some((above, name)) = self.above_if_there(path) else { return Ok(()) };
        let removed = match kind_of(&above, name) {
            Ok(FileType::Directory) => {
                for name in self.names(path).map_err(LayerError::file(path))? {
                    self.take(&path.join(name))?;
                }
                rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)
            }
            Ok(_) => rustix::fs::unlinkat(above, name, AtFlags::empty()),
            Err(errno) => Err(errno),
        };
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(LayerError::file(path)(errno)),
        }
    }

    fn names(&self, path: &Path) -> Result<Vec<OsString>, Errno> {
        let directory =
            self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }

    fn change_mode(&self, path: &Path, mode: Mode) -> Result<(), LayerError> {
        let place = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW);
        place.and_then(|place| rustix::fs::fchmod(place, mode)).map_err(LayerError::file(path))
    }

    /// Returns the directory above a path, made where it is missing, and the last component.
    fn above<'p>(&self, path: &'p Path) -> Result<(OwnedFd, &'p OsStr), LayerError> {
        let name = path.file_name().ok_or(Errno::INVAL).map_err(LayerError::file(path))?;
        let parent = path.parent().unwrap_or(Path::new(""));
        match self.resolve(parent, DIRECTORY) {
            Ok(above) => Ok((above, name)),
            Err(Errno::NOENT | Errno::NOTDIR) if !parent.as_os_str().is_empty() => {
                self.make_way(parent, Kind::Directory)?;
                let (higher, last) = self.above(parent)?;
                let made = rustix::fs::mkdirat(&higher, last, MODE);
                made.map_err(LayerError::file(parent))?;
                let above = self.resolve(parent, DIRECTORY).map_err(LayerError::file(parent))?;
                Ok((above, name))
            }
            Err(errno) => Err(LayerError::file(path)(errno)),
        }
    }

    fn above_if_there<'p>(&self, path: &'p Path) -> Option<(OwnedFd, &'p OsStr)> {
        let parent = path.parent().unwrap_or(Path::new(""));
        Some((self.resolve(parent, DIRECTORY).ok()?, path.file_name()?))
    }

    /// Returns what lies at a path; links on the way are followed within the tree, as a root of its own
    /// would. A link at the end is followed unless `flags` say otherwise. (openat2(2) does the same, and
    /// is not available inside: its mode lies where no filter sees it.)
    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mut above: Vec<OwnedFd> = Vec::new();
        let mut rest: Vec<OsString> = parts(path).rev().collect();
        let mut links = 0;
        while let Some(part) = rest.pop() {
            if part == OsStr::new("..") {
                above.pop();
                continue;
            }
            let here = above.last().unwrap_or(&self.root);
            let place = rustix::fs::openat(here, &part, PLACE, Mode::empty())?;
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
            if kind == FileType::Symlink && !(rest.is_empty() && flags.contains(OFlags::NOFOLLOW)) {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::LOOP);
                }
                let target = rustix::fs::readlinkat(&place, "", Vec::new())?;
                let target = Path::new(OsStr::from_bytes(target.as_bytes()));
                if target.has_root() {
                    above.clear();
                }
                rest.extend(parts(target).rev());
            } else {
                above.push(place);
            }
        }
        let place = above.last().unwrap_or(&self.root);
        // The place itself, which nobody can have changed since: only who is asked is new.
        rustix::fs::openat(place, ".", flags | OFlags::CLOEXEC, Mode::empty())
    }
}

/// What a path leads through is looked at, not followed.
const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// As the kernel has it (path_resolution(7)).
const MOST_LINKS: usize = 40;

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Other,
}

fn kind_of(above: impl AsFd, name: &OsStr) -> Result<FileType, Errno> {
    let stat = rustix::fs::statat(above, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

/// Returns whether something that this archive made lies below a path.
fn holds_own(path: &Path, own: &BTreeSet<PathBuf>) -> bool {
    own.range(path.to_owned()..).next().is_some_and(|one| one.starts_with(path))
}
