//! Where a granted root lies: names of several components are judged with what is above it.

use std::ffi::OsStr;
use std::iter;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::fold::fold;
use pinfold_policy::glob::Glob;

/// As many components as the longest name in the data may have above a root.
const DEEPEST: usize = 8;

/// What is called by the names of a home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomePart {
    /// Where it really lies: absolute, or below each root.
    pub path: PathBuf,
    /// What it is called in a home: nothing for the home itself, `.config` for what
    /// `XDG_CONFIG_HOME` names.
    pub name: PathBuf,
}

impl HomePart {
    /// Describes a home.
    #[must_use]
    pub fn home(path: PathBuf) -> Self {
        Self { path, name: PathBuf::new() }
    }
}

/// What a variable of the caller's has elsewhere than in the home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The variable.
    pub variable: &'static str,
    /// Whether it may hold several paths, divided by colons.
    pub is_list: bool,
    pub(super) below: &'static str,
    pub(super) name: &'static str,
}

impl Moved {
    /// Returns what the variable moves if it has this value.
    #[must_use]
    pub fn to(&self, value: &Path) -> HomePart {
        HomePart { path: value.join(self.below), name: self.name.into() }
    }
}

/// Where a granted root really lies.
///
/// `.config/gh` also means the directory `gh` of a grant of `~/.config`, and what is protected in a
/// home is protected whatever part of the home is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The last components of each path of the root, folded; never none, since names that may lie
    /// anywhere are looked for in these.
    above: Vec<PathBuf>,
    /// What of a home the root lies in, or has in it.
    parts: Vec<Part>,
}

/// A part of a home, seen from a root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    /// Where it is below the root; nothing for the root itself.
    below: PathBuf,
    /// What this is called in a home, folded.
    name: PathBuf,
}

impl Part {
    fn of(root: &Path, part: &HomePart) -> Option<Self> {
        if part.path.is_relative() {
            return Some(Self { below: normal(&part.path).collect(), name: folded(&part.name) });
        }
        if let Ok(rest) = root.strip_prefix(&part.path) {
            return Some(Self { below: PathBuf::new(), name: folded(&part.name.join(rest)) });
        }
        let below = part.path.strip_prefix(root).ok()?.to_owned();
        Some(Self { below, name: folded(&part.name) })
    }

    /// Returns what a path below the root, folded, is called in a home.
    fn name_of(&self, relative: &Path) -> Option<PathBuf> {
        Some(self.name.join(relative.strip_prefix(folded(&self.below)).ok()?))
    }
}

/// A root of which nobody knows where it lies.
impl Default for Site {
    fn default() -> Self {
        Self::of_names(Path::new(""))
    }
}

impl Site {
    /// Describes a root by its path and what has the names of the user's homes, all absolute and
    /// without links.
    #[must_use]
    pub fn new(root: &Path, homes: &[HomePart]) -> Self {
        let mut parts: Vec<Part> = Vec::new();
        for part in homes.iter().filter_map(|part| Part::of(root, part)) {
            let below = folded(&part.below);
            if !parts.iter().any(|known| known.name_of(&below).as_ref() == Some(&part.name)) {
                parts.push(part);
            }
        }
        Self { parts, ..Self::of_names(root) }
    }

    /// Describes a root by its path alone.
    #[must_use]
    pub fn of_names(root: &Path) -> Self {
        Self { above: vec![last_of(root)], parts: Vec::new() }
    }

    /// Adds another path of the same root, such as the one in its file system where it is mounted a
    /// second time.
    #[must_use]
    pub fn also_at(mut self, root: &Path) -> Self {
        let above = last_of(root);
        if !self.above.contains(&above) {
            self.above.push(above);
        }
        self
    }

    /// Returns whether a path below the root is itself called otherwise in a home, so that its last
    /// name says nothing about it.
    #[must_use]
    pub fn is_moved(&self, relative: &Path) -> bool {
        self.moved().any(|below| folded(below) == folded(relative))
    }

    /// Returns the paths below the root that are called otherwise in a home.
    pub fn moved(&self) -> impl Iterator<Item = &Path> {
        let paths = self.parts.iter().map(|part| part.below.as_path());
        paths.filter(|below| !below.as_os_str().is_empty())
    }

    /// Returns the names of a path below the root.
    pub(super) fn names(&self, relative: &Path) -> Names {
        let relative = folded(relative);
        let in_home: Vec<PathBuf> =
            self.parts.iter().filter_map(|part| part.name_of(&relative)).collect();
        let above = self.above.iter().map(|above| above.join(&relative));
        let deep = above.chain(in_home.iter().cloned()).collect();
        Names { relative, deep, in_home }
    }

    /// Returns where a path of the home lies below the root, if it does.
    pub(super) fn below_home(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let below = self.parts.iter().filter_map(|part| {
            let rest = path.strip_prefix(&part.name).ok()?;
            // Joined with nothing it would end with a slash.
            Some(if rest.as_os_str().is_empty() {
                part.below.clone()
            } else {
                part.below.join(rest)
            })
        });
        below.filter(|below| !below.as_os_str().is_empty())
    }
}

/// A path below a root, in each way that it can be called, folded.
pub(super) struct Names {
    /// From the root.
    pub(super) relative: PathBuf,
    /// With what is above the root, and from a home.
    deep: Vec<PathBuf>,
    /// From a home.
    in_home: Vec<PathBuf>,
}

impl Names {
    /// Returns the last name of each.
    pub(super) fn last(&self) -> Vec<&OsStr> {
        let all = iter::once(&self.relative).chain(&self.in_home);
        let mut last: Vec<&OsStr> = all.filter_map(|path| path.file_name()).collect();
        last.sort_unstable();
        last.dedup();
        last
    }

    /// Returns whether a glob matches one of the paths that it is applied to.
    pub(super) fn match_one(&self, is_of_home: bool, glob: &Glob) -> bool {
        match (is_of_home, glob.is_floating()) {
            (true, _) => self.in_home.iter().any(|path| glob.matches(path)),
            (false, true) => self.deep.iter().any(|path| glob.matches(path)),
            (false, false) => glob.matches(&self.relative),
        }
    }
}

fn last_of(root: &Path) -> PathBuf {
    let names: Vec<&OsStr> = normal(root).collect();
    let last = names.get(names.len().saturating_sub(DEEPEST)..).unwrap_or_default();
    folded(&last.iter().collect::<PathBuf>())
}

fn folded(path: &Path) -> PathBuf {
    normal(path).map(|name| OsStr::from_bytes(&fold(name.as_bytes())).to_owned()).collect()
}

fn normal(path: &Path) -> impl Iterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    })
}
