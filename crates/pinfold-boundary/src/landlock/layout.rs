//! Where everything of a sandbox lies that has no root of its own.
//!
//! What is granted at its own path is there already, and gets a rule. What has a path of the sandbox's own lies in a directory of
//! the session's, in a tree of the same shape, and programs are given that path. A place for which neither is
//! true is refused: it would not be there.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_init::Failure;
use pinfold_policy::path::HostPath;
use pinfold_wire::{Mask, MaskKind, Step};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::LaunchError;
use crate::namespace::{Root, inside};
use crate::plan::{Changes, Entry, LaunchPlan, Lower, Place};

/// Directories below which programs find places by variables, and not because every program knows them.
const MOVABLE: [&str; 5] = ["/home", "/tmp", "/var/tmp", "/dev/shm", "/run"];

/// Files that describe a sandbox elsewhere, and a directory of such. Here programs see the machine's.
pub(super) const OF_THE_MACHINE: [&str; 7] = [
    "/etc/passwd",
    "/etc/group",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/chromium.d",
];

/// Where everything lies.
#[derive(Debug, Default)]
pub(super) struct Layout {
    /// The session's directory for what has a path of the sandbox's own.
    pub(super) root: PathBuf,
    /// What may be read, where it lies.
    pub(super) read: Vec<PathBuf>,
    /// What may be changed, where it lies.
    pub(super) changed: Vec<PathBuf>,
    /// Paths of the sandbox, and where each lies; one that begins with another comes before it.
    pub(super) moved: Vec<(PathBuf, PathBuf)>,
    pub(super) view: Option<View>,
}

/// The workspace, which is copied.
#[derive(Debug)]
pub(super) struct View {
    pub(super) workspace: PathBuf,
    /// The directory of its layers.
    pub(super) layers: PathBuf,
    /// Where the copy lies.
    pub(super) copy: PathBuf,
}

impl Layout {
    /// Decides where everything lies. Makes nothing.
    ///
    /// # Errors
    /// Returns an error for the place that this boundary cannot show.
    pub(super) fn of(plan: &LaunchPlan, directory: &Path) -> Result<Self, LaunchError> {
        let mut layout = Self { root: directory.join("root"), ..Self::default() };
        for entry in &plan.tree {
            layout.add(entry)?;
        }
        layout.moved.sort_by_key(|(from, _)| std::cmp::Reverse(from.components().count()));
        Ok(layout)
    }

    fn add(&mut self, entry: &Entry) -> Result<(), LaunchError> {
        let path = entry.path.as_path();
        match &entry.place {
            Place::ReadOnly(host) | Place::System(host) => {
                self.granted(path, host)?;
                self.read.push(host.as_path().to_owned());
            }
            Place::Writable(host) => {
                self.granted(path, host)?;
                self.changed.push(host.as_path().to_owned());
            }
            Place::Overlay { lower, changes: Changes::Kept(layers) } => match lower.as_slice() {
                [Lower::Owned(host)] if host.as_path() == path && self.view.is_none() => {
                    let name = path.file_name().ok_or_else(|| refused(path, "it has no name"))?;
                    let layers = layers.as_path().to_owned();
                    let copy = layers.join(super::copy::COPY).join(name);
                    self.changed.push(copy.clone());
                    self.moved.push((path.to_owned(), copy.clone()));
                    self.view = Some(View { workspace: path.to_owned(), layers, copy });
                }
                _ => return Err(refused(path, "only a workspace can be a view")),
            },
            Place::Overlay { .. } => {
                return Err(refused(path, "it makes no systems of images or snapshots"));
            }
            Place::Private => {
                if self.view.as_ref().is_some_and(|view| path.starts_with(&view.workspace)) {
                    return Err(refused(path, "no path in a workspace can be shadowed"));
                }
                self.changed.push(self.at(path));
                self.move_there(path);
            }
            Place::File { .. } if OF_THE_MACHINE.iter().any(|known| path.starts_with(known)) => {}
            Place::File { .. } => self.movable(path)?,
            Place::Symlink(to) if fs::read_link(path).is_ok_and(|found| found == *to) => {}
            Place::Symlink(_) => self.movable(path)?,
        }
        Ok(())
    }

    /// Takes a place of the host's that is shown at a path.
    fn granted(&mut self, path: &Path, host: &HostPath) -> Result<(), LaunchError> {
        if is_same(path, host) { Ok(()) } else { self.movable(path) }
    }

    fn movable(&mut self, path: &Path) -> Result<(), LaunchError> {
        if !MOVABLE.iter().any(|known| path.starts_with(known)) {
            return Err(refused(path, "nothing can be put over what the machine has there"));
        }
        self.move_there(path);
        Ok(())
    }

    fn move_there(&mut self, path: &Path) {
        if !self.moved.iter().any(|(from, _)| path.starts_with(from)) {
            self.moved.push((path.to_owned(), self.at(path)));
        }
    }

    /// Returns where a path of the sandbox's own lies.
    pub(super) fn at(&self, path: &Path) -> PathBuf {
        self.root.join(inside(path))
    }

    /// Makes the tree of what has a path of the sandbox's own.
    ///
    /// # Errors
    /// Returns an error for the entry that failed, with its path.
    pub(super) fn make(&self, tree: &[Entry]) -> Result<(), Failure> {
        for entry in tree {
            let path = entry.path.as_path();
            let step =
                if matches!(entry.place, Place::File { .. }) { Step::Files } else { Step::Root };
            let failed = Failure::about(step, entry.path.as_bytes());
            self.make_entry(path, &entry.place, tree).map_err(failed)?;
        }
        Ok(())
    }

    fn make_entry(&self, path: &Path, place: &Place, tree: &[Entry]) -> Result<(), Errno> {
        if !self.moved.iter().any(|(from, _)| path.starts_with(from)) {
            return Ok(());
        }
        match place {
            Place::Overlay { .. } => Ok(()),
            Place::Private => make_directory(&self.at(path)),
            Place::ReadOnly(host) | Place::System(host) | Place::Writable(host)
                if !is_same(path, host) =>
            {
                self.link(path, host.as_path())
            }
            Place::ReadOnly(_) | Place::System(_) | Place::Writable(_) => Ok(()),
            Place::Symlink(to) => self.link(path, Path::new(to)),
            Place::File { content, mode, keep } => {
                let (base, rest) = self.base(path, tree);
                make_directory(&base)?;
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let root = Root::of(rustix::fs::open(&base, flags, Mode::empty())?);
                if *keep && root.resolve(&rest).is_ok() {
                    Ok(())
                } else {
                    root.create(&rest, *mode, content)
                }
            }
        }
    }

    /// Returns the masks in the workspace, by paths in it, and takes what is borrowed. What lies in another grant cannot be hidden or
    /// protected in there.
    ///
    /// # Errors
    /// Returns an error for the first one of these, with its path.
    pub(super) fn sort(
        &mut self,
        masks: Vec<Mask>,
        tree: &[Entry],
    ) -> Result<HashMap<PathBuf, MaskKind>, Failure> {
        let mut of_view = HashMap::new();
        for Mask { path, kind } in masks {
            let at = Path::new(OsStr::from_bytes(&path));
            let workspace = self.view.as_ref().map(|view| view.workspace.as_path());
            if let MaskKind::Borrow(with) = &kind {
                self.borrow(at, Path::new(OsStr::from_bytes(with)));
            } else if let Some(within) =
                workspace.and_then(|workspace| at.strip_prefix(workspace).ok())
            {
                of_view.insert(within.to_owned(), kind);
            } else if kind != MaskKind::ReadOnly || is_writable(at, tree) {
                return Err(Failure::about(Step::Masks, &path)(Errno::OPNOTSUPP));
            }
        }
        Ok(of_view)
    }

    /// Takes a directory of the host's that is borrowed at a path of the sandbox's own.
    fn borrow(&mut self, at: &Path, with: &Path) {
        self.read.push(with.to_owned());
        self.moved.insert(0, (at.to_owned(), with.to_owned()));
    }

    /// Returns where a path of the sandbox's lies.
    pub(super) fn place(&self, path: &Path) -> PathBuf {
        for (from, to) in &self.moved {
            if let Ok(rest) = path.strip_prefix(from) {
                // To join nothing would add a slash.
                return if rest.as_os_str().is_empty() { to.clone() } else { to.join(rest) };
            }
        }
        path.to_owned()
    }

    fn link(&self, path: &Path, to: &Path) -> Result<(), Errno> {
        let at = self.at(path);
        at.parent().map_or(Ok(()), make_directory)?;
        rustix::fs::symlink(to, at)
    }

    /// Returns the directory that a path of the sandbox's lies beneath without a link of this tree's, and the rest of
    /// it. A directory of the host's may hold links of an earlier session's.
    fn base(&self, path: &Path, tree: &[Entry]) -> (PathBuf, PathBuf) {
        let granted = tree.iter().filter_map(|entry| match &entry.place {
            Place::ReadOnly(host) | Place::Writable(host) => Some((entry.path.as_path(), host)),
            _ => None,
        });
        let above =
            granted.filter_map(|(above, host)| Some((path.strip_prefix(above).ok()?, host)));
        match above.min_by_key(|(rest, _)| rest.components().count()) {
            Some((rest, host)) => (host.as_path().to_owned(), rest.to_owned()),
            None => (self.root.clone(), inside(path).to_owned()),
        }
    }
}

/// Returns whether a path lies in something that may be changed.
fn is_writable(path: &Path, tree: &[Entry]) -> bool {
    let innermost = tree
        .iter()
        .filter(|entry| path.starts_with(entry.path.as_path()))
        .max_by_key(|entry| entry.path.as_path().components().count());
    innermost.is_some_and(|entry| !matches!(entry.place, Place::ReadOnly(_) | Place::System(_)))
}

/// Returns whether what lies at a path is that place of the host's.
fn is_same(path: &Path, host: &HostPath) -> bool {
    path == host.as_path() || fs::canonicalize(path).is_ok_and(|found| found == host.as_path())
}

fn make_directory(path: &Path) -> Result<(), Errno> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

fn refused(path: &Path, why: &str) -> LaunchError {
    let what = format!("the boundary landlock cannot show {}: {why}", path.display());
    LaunchError::Wall { what }
}

#[cfg(test)]
mod tests;
