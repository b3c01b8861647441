//! Walks a path as a process inside would, component by component (path_resolution(7)), and says
//! where on the host it ends. A link's target is read in the sandbox's own name space: an absolute
//! link never leads to the host's root.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::grant::{Effect, Symlinks};
use super::tree::{Entry, Kind, Tree};
use super::value::Authority;
use crate::path::{HostPath, InsidePath, PathError};

/// How many links one path may lead through (`MAXSYMLINKS` in Linux, path_resolution(7)).
const MAX_LINKS: usize = 40;

/// A symbolic link that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub link: InsidePath,
    /// Its target as written.
    pub target: PathBuf,
}

/// A place under a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The position of the governing grant in its authority.
    pub(super) grant: usize,
    /// The path inside, free of links but perhaps for the last component.
    pub inside: InsidePath,
    /// The path on the host.
    pub host: HostPath,
    /// What is there; none if nothing is.
    pub entry: Option<Entry>,
}

/// Why a path leads nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Block {
    /// More links than the kernel follows.
    #[error("too many symbolic links")]
    Loop,
    /// A component that is not the last is no directory.
    #[error("not a directory")]
    NotADirectory,
    /// A component that is not the last does not exist.
    #[error("no such directory")]
    Missing,
    /// The root's rules refuse links.
    #[error("its root allows no symbolic links")]
    LinkRefused,
    /// The link leads out of a root whose rules keep links inside it.
    #[error("a symbolic link leads out of its root")]
    LinkLeavesRoot,
    /// What was granted is a link by now: the path that was granted is stale.
    #[error("the granted path has become a symbolic link")]
    RootIsLink,
    /// The name could not be examined.
    #[error("it cannot be examined: {0}")]
    Unreadable(std::io::ErrorKind),
}

/// Where a path ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Under a grant.
    Granted(Located),
    /// A directory that exists inside only because a grant lies below it.
    Synthetic(InsidePath),
    /// In something hidden.
    Hidden {
        /// The path inside.
        inside: InsidePath,
        /// The path on the host.
        host: HostPath,
    },
    /// Nothing is granted there.
    Absent(InsidePath),
    /// The path cannot be walked to its end.
    Blocked {
        /// The component that stopped it.
        at: InsidePath,
        why: Block,
    },
}

/// What walking a path found. It is stale as soon as the tree changes: act on descriptors opened
/// beneath a grant, and use this to decide and to explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub(super) asked: PathBuf,
    pub(super) hops: Vec<Hop>,
    pub(super) place: Place,
}

impl Resolved {
    /// Returns the path as it was asked.
    #[must_use]
    pub fn asked(&self) -> &Path {
        &self.asked
    }

    /// Returns the links that were followed, in order.
    #[must_use]
    pub fn hops(&self) -> &[Hop] {
        &self.hops
    }

    /// Returns where the path ends.
    #[must_use]
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the host path, where a grant gives one.
    #[must_use]
    pub fn host(&self) -> Option<&HostPath> {
        match &self.place {
            Place::Granted(located) => Some(&located.host),
            _ => None,
        }
    }
}

/// Whether a link as the last component is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Follow,
    Keep,
}

impl Authority {
    /// Walks an absolute inside path, following a link in the last component too. The last
    /// component need not exist.
    ///
    /// # Errors
    /// Returns an error when the path is relative or contains a NUL byte.
    pub fn resolve(&self, tree: &dyn Tree, path: impl AsRef<Path>) -> Result<Resolved, PathError> {
        Walk::new(self, tree, path.as_ref(), Last::Follow).map(Walk::run)
    }

    /// Works like [`Self::resolve`], but a link as the last component is itself the end: for accesses to
    /// a name ([`crate::access::Access::OF_THE_NAME`]).
    ///
    /// # Errors
    /// Returns the errors of [`Self::resolve`].
    pub fn resolve_name(
        &self,
        tree: &dyn Tree,
        path: impl AsRef<Path>,
    ) -> Result<Resolved, PathError> {
        Walk::new(self, tree, path.as_ref(), Last::Keep).map(Walk::run)
    }

    /// Returns what is at a path in the sandbox whose directory is free of links.
    fn locate(&self, tree: &dyn Tree, inside: InsidePath) -> Place {
        let leads_to_a_grant = || {
            self.grants
                .iter()
                .any(|grant| grant.root.inside != inside && grant.root.inside.starts_with(&inside))
        };
        let governing = self.governing_index(&inside).and_then(|index| {
            let grant = self.grants.get(index)?;
            Some((index, grant, grant.host_of(&inside)?))
        });
        let Some((index, grant, host)) = governing else {
            return if leads_to_a_grant() {
                Place::Synthetic(inside)
            } else {
                Place::Absent(inside)
            };
        };
        if self.restriction_of(&host).is_some_and(|found| found.effect == Effect::Hide) {
            return Place::Hidden { inside, host };
        }
        match tree.entry(&host) {
            Ok(None) if leads_to_a_grant() => Place::Synthetic(inside),
            Ok(Some(Entry { kind: Kind::Symlink, .. })) if grant.root.inside == inside => {
                Place::Blocked { at: inside, why: Block::RootIsLink }
            }
            Ok(entry) => Place::Granted(Located { grant: index, inside, host, entry }),
            Err(error) => Place::Blocked { at: inside, why: Block::Unreadable(error.kind()) },
        }
    }
}

/// One walk: where it is, and what is still to come.
struct Walk<'a> {
    authority: &'a Authority,
    tree: &'a dyn Tree,
    last: Last,
    asked: PathBuf,
    queue: VecDeque<OsString>,
    here: InsidePath,
    hops: Vec<Hop>,
    /// The grant that the last link of a root with [`Symlinks::InRoot`] was found in.
    confined: Option<usize>,
}

impl<'a> Walk<'a> {
    fn new(
        authority: &'a Authority,
        tree: &'a dyn Tree,
        path: &Path,
        last: Last,
    ) -> Result<Self, PathError> {
        if !path.has_root() {
            return Err(PathError::Relative(path.to_owned()));
        }
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(PathError::Nul(path.to_owned()));
        }
        let queue = components(path).collect();
        let here = InsidePath::root();
        let (asked, hops) = (path.to_owned(), Vec::new());
        Ok(Self { authority, tree, last, asked, queue, here, hops, confined: None })
    }

    fn run(mut self) -> Resolved {
        let place = self.walk();
        Resolved { asked: self.asked, hops: self.hops, place }
    }

    fn walk(&mut self) -> Place {
        let mut place = self.authority.locate(self.tree, self.here.clone());
        while let Some(name) = self.queue.pop_front() {
            if let Some(stop) = self.must_be_directory(&place) {
                return self.complete(stop, &name);
            }
            place = match name.as_bytes() {
                b"." => continue,
                b".." => self.back_to(self.here.parent().unwrap_or_else(InsidePath::root)),
                _ => match self.step(&name) {
                    Ok(place) => place,
                    Err(stop) => return stop,
                },
            };
        }
        self.confine(place)
    }

    /// Returns a place that more components follow must be a directory.
    fn must_be_directory(&self, place: &Place) -> Option<Place> {
        let why = match place {
            Place::Synthetic(_) => return None,
            Place::Absent(_) | Place::Hidden { .. } | Place::Blocked { .. } => {
                return Some(place.clone());
            }
            Place::Granted(Located { entry: Some(entry), .. }) if entry.kind == Kind::Directory => {
                return None;
            }
            Place::Granted(Located { entry: Some(_), .. }) => Block::NotADirectory,
            Place::Granted(Located { entry: None, .. }) => Block::Missing,
        };
        Some(Place::Blocked { at: self.here.clone(), why })
    }

    /// Returns where nothing is granted, the whole of what was asked is named, not the first directory
    /// that is missing: a hint to grant `/etc` when `/etc/hosts` was asked would be too wide.
    fn complete(&self, stop: Place, next: &OsStr) -> Place {
        let Place::Absent(mut inside) = stop else { return stop };
        for name in std::iter::once(next).chain(self.queue.iter().map(OsString::as_os_str)) {
            match inside.join(name) {
                Ok(longer) => inside = longer,
                Err(_) => break,
            }
        }
        Place::Absent(inside)
    }

    fn back_to(&mut self, directory: InsidePath) -> Place {
        self.here = directory;
        self.authority.locate(self.tree, self.here.clone())
    }

    /// Goes to `name` in the present directory; a link that is to be followed leads on.
    fn step(&mut self, name: &OsStr) -> Result<Place, Place> {
        // A component split off a path has no separator, and NUL was refused at the start or
        // cannot be in a link.
        let Ok(next) = self.here.join(name) else {
            return Err(Place::Absent(self.here.clone()));
        };
        let place = self.authority.locate(self.tree, next.clone());
        let Place::Granted(located) = &place else {
            self.here = next;
            return Ok(place);
        };
        let is_link = located.entry.is_some_and(|entry| entry.kind == Kind::Symlink);
        if !is_link || (self.queue.is_empty() && self.last == Last::Keep) {
            self.here = next;
            return Ok(place);
        }
        self.follow(next, located.clone())
    }

    fn follow(&mut self, link: InsidePath, located: Located) -> Result<Place, Place> {
        let stop = |why| Err(Place::Blocked { at: link.clone(), why });
        let rule = self.authority.grants.get(located.grant).map(|grant| grant.rules.symlinks);
        match rule {
            Some(Symlinks::Follow) => {}
            Some(Symlinks::InRoot) => self.confined = Some(located.grant),
            Some(Symlinks::Reject) | None => return stop(Block::LinkRefused),
        }
        if self.hops.len() == MAX_LINKS {
            return stop(Block::Loop);
        }
        let target = match self.tree.read_link(&located.host) {
            Ok(target) => target,
            Err(error) => return stop(Block::Unreadable(error.kind())),
        };
        for name in components(&target).collect::<Vec<_>>().into_iter().rev() {
            self.queue.push_front(name);
        }
        let from = if target.has_root() { InsidePath::root() } else { self.here.clone() };
        self.hops.push(Hop { link, target });
        Ok(self.back_to(from))
    }

    /// Returns a link found in a root that keeps its links must end in the same root.
    fn confine(&self, place: Place) -> Place {
        let Some(root) = self.confined else { return place };
        match &place {
            Place::Granted(located) if located.grant != root => {
                Place::Blocked { at: located.inside.clone(), why: Block::LinkLeavesRoot }
            }
            _ => place,
        }
    }
}

/// Returns the names of a path in order. A final separator becomes `.`, since it demands a directory.
fn components(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    let bytes = path.as_os_str().as_bytes();
    let names = bytes.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let demand = bytes.ends_with(b"/").then_some(&b"."[..]);
    names.chain(demand).map(|name| OsStr::from_bytes(name).to_owned())
}
