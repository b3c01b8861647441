//! Trees put over each other, as a session sees them.

mod explained;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::{Changes, Lower};
use pinfold_policy::limits::ByteSize;
use pinfold_policy::path::{HostPath, InsidePath, PathError};
use pinfold_provision::Lock;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::userland::{HOME, PROGRAMS, is_nested};

/// What a boundary makes itself, and what belongs to the session or the machine.
const OWN: [&str; 9] = ["proc", "sys", "dev", "run", "tmp", "home", "mnt", "media", "lost+found"];

/// The session's home, as a path of a tree.
const HOME_NAME: &str = "home/agent";

/// The system of a session: trees, the uppermost first, and where what is changed in them lands.
#[derive(Debug, Clone)]
pub struct Stack {
    pub trees: Vec<PathBuf>,
    /// Whether this machine's programs lie beneath them.
    pub over_host: bool,
    /// Where changes land.
    pub landing: Landing,
    /// Whether the session's user is root by name.
    pub is_root: bool,
    /// Keeps the trees from being removed while they are used.
    pub held: Arc<Vec<Arc<Lock>>>,
}

/// Where what a session changes in its system lands.
#[derive(Debug, Clone)]
pub enum Landing {
    /// In memory, in so many bytes at most.
    Memory(ByteSize),
    /// In a directory for each of the system's own, of a directory: `<n>/upper` and `<n>/work`.
    Kept(PathBuf),
}

/// A stack as a session sees it.
#[derive(Debug, Default)]
pub struct Seen {
    /// Directories, each with what is put over each other there, the uppermost first.
    pub views: Vec<(InsidePath, Vec<Lower>)>,
    /// Links, each with where it leads.
    pub links: Vec<(InsidePath, OsString)>,
}

impl Stack {
    /// Returns what the session sees of it: each of the highest directories as a view of its own, and
    /// the links among them. The home that is in it is the session's.
    ///
    /// # Errors
    /// Returns an error for a tree that cannot be read.
    pub fn seen(&self) -> io::Result<Seen> {
        let mut names = BTreeSet::new();
        for tree in &self.trees {
            for entry in fs::read_dir(tree)? {
                names.insert(entry?.file_name());
            }
        }
        names.retain(|name| !OWN.iter().any(|own| name == OsStr::new(own)));
        let mut seen = Seen::default();
        for name in names {
            let inside = inside(&Path::new("/").join(&name))?;
            match self.found(Path::new(&name)) {
                Some(Found::Directory(places)) => seen.views.push((inside, self.lowers(places)?)),
                // What is put into this directory is the session's own.
                Some(Found::Link(_)) if name == "etc" => {}
                Some(Found::Link(target)) => seen.links.push((inside, target.into_os_string())),
                Some(Found::File(_)) | None => {}
            }
        }
        if let Some(Found::Directory(places)) = self.found(Path::new(HOME_NAME)) {
            seen.views.push((inside(Path::new(HOME))?, self.lowers(places)?));
        }
        Ok(seen)
    }

    /// Directories as layers: those of the trees are the session's user's, the host's are not.
    fn lowers(&self, places: Vec<PathBuf>) -> io::Result<Vec<Lower>> {
        let lower = |place: PathBuf| {
            let is_ours = self.trees.iter().any(|tree| place.starts_with(tree));
            let place = HostPath::new(place).map_err(invalid)?;
            Ok(if is_ours { Lower::Owned(place) } else { Lower::Foreign(place) })
        };
        places.into_iter().map(lower).collect()
    }

    /// Returns where the changes of a view land.
    ///
    /// # Errors
    /// Returns an error for a directory that cannot be made.
    pub fn changes(&self, path: &InsidePath) -> io::Result<Changes> {
        match &self.landing {
            Landing::Memory(_) => Ok(Changes::Private),
            Landing::Kept(dir) => {
                let home = dir.join(landing_name(path.as_path()));
                // What an earlier view left in it says that it was not synced, and is refused.
                pinfold_trees::remove_tree(&home.join("work"))?;
                for name in ["upper", "work"] {
                    fs::create_dir_all(home.join(name))?;
                }
                Ok(Changes::Kept(HostPath::new(home).map_err(invalid)?))
            }
        }
    }

    /// Returns what commands changed, once they have run: each directory that holds changes, with its
    /// place in the tree that they make.
    ///
    /// # Errors
    /// Returns an error for a tree that cannot be read.
    pub fn landed(&self) -> io::Result<Vec<(PathBuf, PathBuf)>> {
        let Landing::Kept(dir) = &self.landing else { return Ok(Vec::new()) };
        let landed = |path: &InsidePath| {
            let place = path.as_path().strip_prefix("/").unwrap_or(path.as_path());
            (dir.join(landing_name(path.as_path())).join("upper"), place.to_owned())
        };
        Ok(self.seen()?.views.iter().map(|(path, _)| landed(path)).collect())
    }

    /// Returns whether it is being built.
    pub fn is_built(&self) -> bool {
        matches!(self.landing, Landing::Kept(_))
    }

    /// Returns how many bytes of changes memory may hold.
    pub fn bytes(&self) -> Option<u64> {
        match self.landing {
            Landing::Memory(size) => Some(size.bytes()),
            Landing::Kept(_) => None,
        }
    }

    /// Returns where a file inside lies on the host, if it is a regular one.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<PathBuf> {
        Some(self.locate(path)?.1)
    }

    /// Returns whether it has a directory or a file here, to which no link leads.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let place = path.strip_prefix("/").unwrap_or(path);
        matches!(self.found(place), Some(Found::Directory(_) | Found::File(_)))
    }

    /// Returns the first bytes of a regular file, at most so many; none where the file does not exist.
    ///
    /// # Errors
    /// Returns an error for a file that cannot be read, or that another one replaces just now.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(path) else { return Ok(None) };
        // If another session changes the path since, it leads nowhere.
        let how = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = rustix::fs::openat2(CWD, &file, flags, Mode::empty(), how)?;
        let mut bytes = Vec::new();
        fs::File::from(opened).take(most).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns the path inside to which the links on a path to a regular file lead, and where that file
    /// lies on the host. Links are followed as the sandbox would.
    #[must_use]
    pub fn locate(&self, path: &Path) -> Option<(PathBuf, PathBuf)> {
        const MOST_LINKS: usize = 40;
        let mut place = PathBuf::new();
        let mut rest: Vec<OsString> = parts(path).rev().collect();
        let mut links = 0;
        let mut last = None;
        while let Some(part) = rest.pop() {
            if part == OsStr::new("..") {
                place.pop();
                continue;
            }
            place.push(&part);
            match self.found(&place)? {
                Found::Directory(_) => {}
                Found::File(host) => last = Some(host).filter(|_| rest.is_empty()),
                Found::Link(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.has_root() {
                        place.clear();
                    } else {
                        place.pop();
                    }
                    rest.extend(parts(&target).rev());
                }
            }
        }
        Some((Path::new("/").join(place), last?))
    }

    /// Returns what the trees put over each other have at a place, which no link leads to. Links in the
    /// trees are never followed: on the host they could lead anywhere.
    fn found(&self, place: &Path) -> Option<Found> {
        let mut directories = self.trees.clone();
        // Beneath the trees lie the host's own programs, if these are put over them.
        let mut is_first = true;
        let mut parts = place.iter().peekable();
        while let Some(part) = parts.next() {
            let mut below = Vec::new();
            let host = is_first
                .then(|| Path::new("/").join(part))
                .filter(|path| self.over_host && is_host_program(path));
            is_first = false;
            for path in directories.iter().map(|directory| directory.join(part)).chain(host) {
                let Ok(found) = fs::symlink_metadata(&path) else { continue };
                let kind = found.file_type();
                if kind.is_dir() {
                    let hides = is_opaque(&path);
                    below.push(path);
                    if hides {
                        break;
                    }
                    continue;
                }
                // Below a directory it is hidden; else it is what is there, and hides the rest.
                if below.is_empty() && parts.peek().is_none() {
                    return match kind {
                        _ if kind.is_symlink() => Some(Found::Link(fs::read_link(&path).ok()?)),
                        _ if kind.is_file() => Some(Found::File(path)),
                        _ => None,
                    };
                }
                break;
            }
            if below.is_empty() {
                return None;
            }
            directories = below;
        }
        Some(Found::Directory(directories))
    }

    /// Returns the login shell: the best that it has.
    #[must_use]
    pub fn shell(&self) -> &'static str {
        let has = |path: &str| self.file(Path::new(path)).is_some();
        if has("/bin/bash") || has("/usr/bin/bash") { "/bin/bash" } else { "/bin/sh" }
    }
}

/// What lies at a place of a stack.
enum Found {
    /// Directories put over each other, the uppermost first.
    Directory(Vec<PathBuf>),
    File(PathBuf),
    Link(PathBuf),
}

/// The attribute that hides what lower trees have in a directory, where it is `y` (Linux,
/// Documentation/filesystems/overlayfs, "whiteouts and opaque directories").
pub(crate) const OPAQUE: &str = "user.overlay.opaque";

/// Returns whether what lower trees have in a directory is hidden.
fn is_opaque(directory: &Path) -> bool {
    let mut value = [0; 1];
    let length = rustix::fs::lgetxattr(directory, OPAQUE, &mut value);
    length.is_ok() && value == *b"y"
}

/// Returns the directory in which the changes of a view land: its path inside as one name, with `%` for
/// slashes and itself (RFC 3986), so that two paths never share one.
fn landing_name(path: &Path) -> OsString {
    let relative = path.strip_prefix("/").unwrap_or(path).as_os_str().as_bytes();
    let mut name = Vec::with_capacity(relative.len());
    for byte in relative {
        match byte {
            b'/' => name.extend_from_slice(b"%2F"),
            b'%' => name.extend_from_slice(b"%25"),
            other => name.push(*other),
        }
    }
    OsString::from_vec(name)
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Returns whether it is a directory of the host's programs all of which is seen.
fn is_host_program(path: &Path) -> bool {
    PROGRAMS.iter().any(|program| path == Path::new(program) && !is_nested(path))
}

fn inside(path: &Path) -> io::Result<InsidePath> {
    InsidePath::new(path).map_err(invalid)
}

fn invalid(error: PathError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

#[cfg(test)]
mod tests;
