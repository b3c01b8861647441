//! What the host makes below a view under names of secrets.
//!
//! Only the host writes there, so what is new is the host's. The same mask hides it as what was there at the start. That is a
//! mount on the name that the view shows: nothing gets into the layer of the session's changes, where it would count as one of
//! them. A file that the layer has itself is the session's own.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_boundary::{Mask, MaskKind};
use pinfold_host::beneath::open_directory;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;

use crate::newcomers::{Newcomers, is_within};
use crate::survey::Listing;
use crate::tracked::Ignored;

/// Names that are masked at most.
const MOST: usize = 4096;
/// Bytes of a path that can be looked up (`PATH_MAX`).
const LONGEST: usize = 4095;

/// New names of secrets below a view. All paths are relative to the workspace.
pub(super) struct Made {
    newcomers: Newcomers,
    /// The layer with the session's changes.
    upper: PathBuf,
    all: BTreeSet<PathBuf>,
    /// Those that were noted since they were masked last.
    due: BTreeSet<PathBuf>,
    /// Those that git skips, and how.
    skipped: BTreeSet<PathBuf>,
    ignored: Ignored,
}

/// What the layer has at a path.
#[derive(PartialEq, Eq)]
enum InLayer {
    Nothing,
    Directory,
    /// Something that hides what lies below.
    Other,
}

impl Made {
    pub(super) fn new(newcomers: Newcomers, upper: PathBuf) -> Self {
        let (all, due, skipped) = Default::default();
        let ignored = Ignored::open(&newcomers.tops, &newcomers.private);
        Self { newcomers, upper, all, due, skipped, ignored }
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.newcomers.root
    }

    /// Notes what lies in a directory of the workspace.
    pub(super) fn note<'n>(
        &mut self,
        directory: &Path,
        names: impl Iterator<Item = (&'n [u8], FileType)>,
    ) {
        let found = self.newcomers.among(&Listing::of(directory, names));
        let relative = |path: &PathBuf| Some(path.strip_prefix(self.workspace()).ok()?.to_owned());
        let new: Vec<PathBuf> = found.iter().filter_map(relative).collect();
        // The session may have made a directory of this name itself.
        let above = directory.ancestors().find(|above| self.all.contains(*above));
        self.due.extend(above.map(Path::to_owned));
        self.add(new);
    }

    /// Notes that something was renamed. What is new has the same content under any name.
    pub(super) fn note_move(&mut self, old: &Path, new: &Path) {
        let moved = |path: &PathBuf| {
            let rest = path.strip_prefix(old).ok()?;
            Some(if rest == Path::new("") { new.to_owned() } else { new.join(rest) })
        };
        self.add(self.all.iter().filter_map(moved).collect());
    }

    fn add(&mut self, new: Vec<PathBuf>) {
        for path in new {
            if self.all.len() < MOST || self.all.contains(&path) {
                self.all.insert(path.clone());
                self.due.insert(path);
            }
        }
    }

    /// Leaves out what is hidden there by a mask of the start that has followed it.
    pub(super) fn leave_out(&mut self, masked: impl Iterator<Item = PathBuf>) {
        self.newcomers.known.extend(masked);
    }

    /// Returns whether something new lies at a path or below it.
    pub(super) fn has_below(&self, path: &Path) -> bool {
        self.all.iter().any(|new| new.starts_with(path))
    }

    /// Returns masks for what was noted since the last call, which git in the sandbox skips from now on.
    pub(super) fn take_due(&mut self) -> Vec<Mask> {
        let due = std::mem::take(&mut self.due);
        let is_new = |path: &&PathBuf| !self.skipped.contains(*path);
        let new: Vec<PathBuf> =
            due.iter().filter(is_new).map(|it| self.workspace().join(it)).collect();
        if !new.is_empty() {
            // Otherwise git shows empty files.
            let _ = self.ignored.add(&new);
        }
        self.skipped.extend(due.iter().cloned());
        self.masks(&due)
    }

    /// Returns masks for all that is new: the view may not have shown some of it before.
    pub(super) fn all_masks(&self) -> Vec<Mask> {
        self.masks(&self.all)
    }

    fn masks(&self, paths: &BTreeSet<PathBuf>) -> Vec<Mask> {
        let mut shown = Vec::new();
        for path in paths {
            self.find_shown(path, &mut shown);
        }
        let mask = |path: PathBuf| {
            let path = self.workspace().join(path).into_os_string().into_encoded_bytes();
            Mask { path, kind: MaskKind::Hide }
        };
        shown.into_iter().map(mask).filter(|mask| mask.path.len() <= LONGEST).collect()
    }

    /// Finds the uppermost paths at which the view may show what the host has made.
    fn find_shown(&self, path: &Path, shown: &mut Vec<PathBuf>) {
        if shown.len() == MOST {
            return;
        }
        let host = self.workspace().join(path);
        match self.in_layer(path) {
            InLayer::Nothing => shown.push(path.to_owned()),
            InLayer::Directory if host.symlink_metadata().is_ok_and(|it| it.is_dir()) => {
                for entry in fs::read_dir(host).into_iter().flatten().flatten() {
                    self.find_shown(&path.join(entry.file_name()), shown);
                }
            }
            InLayer::Directory | InLayer::Other => {}
        }
    }

    fn in_layer(&self, path: &Path) -> InLayer {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = |upper: OwnedFd| openat2(&upper, path, flags, Mode::empty(), how);
        match open_directory(&self.upper).and_then(open).and_then(fstat) {
            Err(Errno::NOENT) => InLayer::Nothing,
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {
                InLayer::Directory
            }
            Ok(_) | Err(_) => InLayer::Other,
        }
    }

    /// Returns the absolute paths of what was made.
    pub(super) fn into_paths(self) -> BTreeSet<PathBuf> {
        let Self { newcomers: Newcomers { root, known, .. }, all, .. } = self;
        let paths = all.into_iter().map(|path| root.join(path));
        paths.filter(|path| !is_within(path, &known)).collect()
    }
}

/// Returns the kind of an entry of which an event says whether it is a directory.
pub(super) fn kind_of(is_directory: bool) -> FileType {
    if is_directory { FileType::Directory } else { FileType::RegularFile }
}
