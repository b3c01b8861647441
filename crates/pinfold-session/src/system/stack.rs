//! Trees put over each other, as a session sees them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::{Changes, Lower};
use pinfold_policy::limits::ByteSize;
use pinfold_policy::path::{HostPath, InsidePath, PathError};
use pinfold_provision::Lock;

use super::host::is_nested;
use crate::userland::{HOME, PROGRAMS};

/// What a boundary makes itself, and what belongs to the session or the machine.
const OWN: [&str; 9] = ["proc", "sys", "dev", "run", "tmp", "home", "mnt", "media", "lost+found"];

/// The system of a session: trees, the uppermost first, and where what is changed in them lands.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The trees.
    pub trees: Vec<PathBuf>,
    /// Whether this machine's programs lie beneath them.
    pub over_host: bool,
    /// Where changes land.
    pub landing: Landing,
    /// What keeps the trees from being removed meanwhile.
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
pub(crate) struct Seen {
    /// Directories, each with what is put over each other there, the uppermost first.
    pub(crate) views: Vec<(InsidePath, Vec<Lower>)>,
    /// Links, each with where it leads.
    pub(crate) links: Vec<(InsidePath, OsString)>,
}

impl Stack {
    /// What the session sees of it: each of the highest directories as a view of its own, and the
    /// links among them. The home that is in it is the session's.
    ///
    /// # Errors
    /// A tree that cannot be read.
    pub(crate) fn seen(&self) -> io::Result<Seen> {
        let mut names: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for tree in &self.trees {
            for entry in fs::read_dir(tree)? {
                let entry = entry?;
                names.entry(entry.file_name()).or_insert_with(|| entry.path());
            }
        }
        let mut seen = Seen::default();
        for (name, uppermost) in names {
            if OWN.iter().any(|own| name == OsStr::new(own)) {
                continue;
            }
            let kind = fs::symlink_metadata(&uppermost)?.file_type();
            let inside = inside(&Path::new("/").join(&name))?;
            if kind.is_symlink() {
                seen.links.push((inside, fs::read_link(&uppermost)?.into_os_string()));
            } else if kind.is_dir() {
                seen.views.push((inside, self.places(Path::new(&name))?));
            }
        }
        let home = self.places(Path::new(HOME.trim_start_matches('/')))?;
        if !home.is_empty() {
            seen.views.push((inside(Path::new(HOME))?, home));
        }
        Ok(seen)
    }

    /// The directories of this name, the uppermost first.
    fn places(&self, name: &Path) -> io::Result<Vec<Lower>> {
        let places = self.trees.iter().map(|tree| tree.join(name));
        let places = places.filter(|place| is_directory(place));
        let owned = |place| HostPath::new(place).map(Lower::Owned).map_err(invalid);
        let mut places: Vec<Lower> = places.map(owned).collect::<io::Result<_>>()?;
        let program = Path::new("/").join(name);
        if self.over_host && is_host_program(&program) && is_directory(&program) {
            places.push(Lower::Foreign(HostPath::new(program).map_err(invalid)?));
        }
        Ok(places)
    }

    /// Where the changes of a view land.
    ///
    /// # Errors
    /// A directory that cannot be made.
    pub(crate) fn changes(&self, path: &InsidePath) -> io::Result<Changes> {
        match &self.landing {
            Landing::Memory(_) => Ok(Changes::Private),
            Landing::Kept(dir) => {
                let home = dir.join(landing_name(path.as_path()));
                // What an earlier view left in it says that it was not synced, and is refused.
                pinfold_provision::remove_tree(&home.join("work")).or_else(|error| {
                    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
                })?;
                for name in ["upper", "work"] {
                    fs::create_dir_all(home.join(name))?;
                }
                Ok(Changes::Kept(HostPath::new(home).map_err(invalid)?))
            }
        }
    }

    /// Whether it is being built: then what is inside is root by name.
    pub(crate) fn is_built(&self) -> bool {
        matches!(self.landing, Landing::Kept(_))
    }

    /// How many bytes of changes memory may hold.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self.landing {
            Landing::Memory(size) => Some(size.bytes()),
            Landing::Kept(_) => None,
        }
    }

    /// The file at a path inside, if it is a regular one, by the tree that has it.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<PathBuf> {
        let relative = path.strip_prefix("/").unwrap_or(path);
        let host = self.over_host.then_some(Path::new("/"));
        let trees = self.trees.iter().map(PathBuf::as_path);
        let found = trees.chain(host).find_map(|tree| {
            let place = beneath(tree, relative)?;
            let is_seen = Some(tree) != host || place.ancestors().any(is_host_program);
            (is_seen && fs::symlink_metadata(&place).is_ok()).then_some(place)
        })?;
        fs::metadata(&found).is_ok_and(|found| found.is_file()).then_some(found)
    }

    /// The login shell: the best that it has.
    #[must_use]
    pub fn shell(&self) -> &'static str {
        let has = |path: &str| self.file(Path::new(path)).is_some();
        if has("/bin/bash") || has("/usr/bin/bash") { "/bin/bash" } else { "/bin/sh" }
    }
}

/// The name of the directory in which the changes of a view land.
pub(crate) fn landing_name(path: &Path) -> String {
    let relative = path.strip_prefix("/").unwrap_or(path);
    relative.display().to_string().replace('/', "-")
}

/// A path of a tree, with links on the way followed as the inside would.
fn beneath(tree: &Path, relative: &Path) -> Option<PathBuf> {
    const MOST_LINKS: usize = 40;
    let mut place = PathBuf::new();
    let mut rest: Vec<OsString> = parts(relative).rev().collect();
    let mut links = 0;
    while let Some(part) = rest.pop() {
        if part == OsStr::new("..") {
            place.pop();
            continue;
        }
        place.push(&part);
        if let Ok(target) = fs::read_link(tree.join(&place)) {
            links += 1;
            if links > MOST_LINKS {
                return None;
            }
            match target.has_root() {
                true => place.clear(),
                false => drop(place.pop()),
            }
            rest.extend(parts(&target).rev());
        }
    }
    Some(tree.join(place))
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Whether it is a directory of the host's programs all of which is seen.
fn is_host_program(path: &Path) -> bool {
    PROGRAMS.iter().any(|program| path == Path::new(program) && !is_nested(path))
}

fn is_directory(place: &Path) -> bool {
    fs::symlink_metadata(place).is_ok_and(|found| found.is_dir())
}

fn inside(path: &Path) -> io::Result<InsidePath> {
    InsidePath::new(path).map_err(invalid)
}

fn invalid(error: PathError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}
