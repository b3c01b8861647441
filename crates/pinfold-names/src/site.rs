//! Where a granted root lies: names of several components are judged with what is above it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use super::fold::fold;
use pinfold_policy::glob::Glob;

/// As many components as the longest name in the data may have above a root.
const DEEPEST: usize = 8;

/// Where a granted root really lies.
///
/// `.config/gh` also means the directory `gh` of a grant of `~/.config`, and what is protected in a
/// home is protected whatever part of the home is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The last components of each path of the root, folded; never none, since names that may lie
    /// anywhere are looked for in these.
    above: Vec<PathBuf>,
    /// The root relative to the home, folded; empty for the home itself.
    in_home: Option<PathBuf>,
}

/// A root of which nobody knows where it lies.
impl Default for Site {
    fn default() -> Self {
        Self::of_names(Path::new(""))
    }
}

impl Site {
    /// Describes a root by its path and the user's homes, all absolute and without links.
    #[must_use]
    pub fn new<'h>(root: &Path, homes: impl IntoIterator<Item = &'h Path>) -> Self {
        let mut in_home = homes.into_iter().filter_map(|home| root.strip_prefix(home).ok());
        let in_home = in_home.next().map(folded);
        Self { in_home, ..Self::of_names(root) }
    }

    /// Describes a root by its path alone.
    #[must_use]
    pub fn of_names(root: &Path) -> Self {
        Self { above: vec![last_of(root)], in_home: None }
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

    /// Returns the names of a path below the root.
    pub(super) fn names(&self, relative: &Path) -> Names {
        let relative = folded(relative);
        let deep = self.above.iter().map(|above| above.join(&relative)).collect();
        let in_home = self.in_home.as_ref().map(|home| home.join(&relative));
        Names { relative, deep, in_home }
    }

    /// Returns a path of the home, relative to the root, if it lies below the root.
    pub(super) fn below_home<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        let below = path.strip_prefix(self.in_home.as_ref()?).ok()?;
        Some(below).filter(|below| !below.as_os_str().is_empty())
    }
}

/// A path below a root, in each way that it can be called, folded.
pub(super) struct Names {
    /// From the root.
    pub(super) relative: PathBuf,
    /// With what is above the root.
    deep: Vec<PathBuf>,
    /// From the home.
    in_home: Option<PathBuf>,
}

impl Names {
    /// Returns whether a glob matches one of the paths that it is applied to.
    pub(super) fn match_one(&self, is_of_home: bool, glob: &Glob) -> bool {
        match (is_of_home, glob.is_floating()) {
            (true, _) => self.in_home.as_ref().is_some_and(|path| glob.matches(path)),
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
