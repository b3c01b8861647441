//! Collecting what findings mean for the sandbox: restrictions, and what has to be made for them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use pinfold_host::Refusal;
use pinfold_host::placeholder::Placeholder;
use pinfold_policy::authority::{Effect, Reason, Restriction, Why};
use pinfold_policy::origin::Origin;
use pinfold_policy::path::HostPath;

/// How many links one path may lead through (`MAXSYMLINKS` in Linux, path_resolution(7)).
const MAX_LINKS: usize = 40;

/// The directory in the sandbox that stands for one of which it has a private copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substitute(pub PathBuf);

/// Everything that is to look different inside.
#[derive(Debug, Default)]
pub struct Protect {
    /// Granted roots; true where the sandbox may write.
    roots: Vec<(PathBuf, bool)>,
    restrictions: Vec<(PathBuf, Effect, Reason, Origin)>,
    /// What is shown in place of what.
    pub substitutes: HashMap<PathBuf, Substitute>,
    /// What is hidden so that nobody may open it. Everything else that is hidden looks empty.
    pub closed: HashSet<PathBuf>,
    /// What has to be made so that it can be restricted.
    pub placeholders: Vec<Placeholder>,
    /// What is missing and may be made, but would be executed: it is judged at the end.
    pub expected: Vec<(PathBuf, Reason)>,
    refused: Vec<String>,
}

impl Protect {
    /// Restricts within these roots; each says whether it can be written to.
    pub fn new(roots: Vec<(PathBuf, bool)>) -> Self {
        Self { roots, ..Self::default() }
    }

    /// Restricts a path by what is built in.
    pub fn restrict(&mut self, path: PathBuf, effect: Effect, reason: Reason) {
        self.restrict_by(path, effect, reason, Origin::Default);
    }

    /// Adds a restriction.
    pub fn restrict_by(&mut self, path: PathBuf, effect: Effect, reason: Reason, origin: Origin) {
        self.restrictions.push((path, effect, reason, origin));
    }

    /// Hides a path so that nobody may open it.
    pub fn close(&mut self, path: PathBuf, reason: Reason) {
        self.closed.insert(path.clone());
        self.restrict(path, Effect::Hide, reason);
    }

    /// Gives the sandbox a private copy of what lies at a path.
    pub fn substitute(&mut self, path: PathBuf, substitute: Substitute, reason: Reason) {
        self.substitutes.insert(path.clone(), substitute);
        self.restrict(path, Effect::Private, reason);
    }

    /// Protects a path that may be missing: an empty directory, or a file with this content,
    /// stands for it, in directories that are made where they are missing too.
    pub fn restrict_missing(
        &mut self,
        path: &Path,
        content: Option<&'static [u8]>,
        reason: Reason,
    ) {
        let followed = follow(path);
        // The host follows them when it looks for this path.
        for link in followed.iter().flat_map(|followed| &followed.links) {
            if self.writable_root(link).is_some() {
                self.restrict(link.clone(), Effect::ReadOnly, reason.clone());
            }
        }
        let end = followed.map_or_else(|| path.to_owned(), |followed| followed.end);
        if self.place_missing(&end, content) {
            self.restrict(end, Effect::ReadOnly, reason);
        }
    }

    /// Makes something stand for a path that is missing, if the sandbox could make it.
    pub fn place_missing(&mut self, path: &Path, content: Option<&'static [u8]>) -> bool {
        let Some(root) = self.writable_root(path).map(Path::to_owned) else { return false };
        // Those above it too: one that is there may be another session's, and go with it.
        let above: Vec<PathBuf> = path
            .ancestors()
            .skip(1)
            .take_while(|above| above.starts_with(&root))
            .filter(|above| *above != root)
            .map(Path::to_owned)
            .collect();
        let made = above.into_iter().rev().map(|path| Placeholder { path, content: None });
        self.placeholders.extend(made);
        self.placeholders.push(Placeholder { path: path.to_owned(), content });
        true
    }

    /// Takes back what was said of a path.
    pub fn forget(&mut self, path: &Path) {
        self.restrictions.retain(|(known, ..)| known != path);
    }

    /// Puts something else in the place of whatever was found at a path.
    pub fn shadow(
        &mut self,
        path: &Path,
        effect: Effect,
        substitute: Option<Substitute>,
        reason: Reason,
        origin: Origin,
    ) {
        self.forget(path);
        match substitute {
            Some(substitute) => self.substitutes.insert(path.to_owned(), substitute),
            None => self.substitutes.remove(path),
        };
        self.restrict_by(path.to_owned(), effect, reason, origin);
    }

    /// Returns the writable root that a path lies in, if any.
    pub fn writable_root(&self, path: &Path) -> Option<&Path> {
        self.root_of(path, true)
    }

    fn root_of(&self, path: &Path, must_be_writable: bool) -> Option<&Path> {
        let roots = self.roots.iter().filter(|(root, _)| path.starts_with(root));
        let innermost = roots.max_by_key(|(root, _)| root.as_os_str().len());
        let found = innermost.filter(|(_, writable)| *writable || !must_be_writable);
        found.map(|(root, _)| root.as_path())
    }

    /// Restricts what `path` leads to through links, which stay.
    pub fn restrict_targets(&mut self, path: &Path, effect: Effect, reason: &Reason) {
        let Some(followed) = follow(path) else { return };
        for link in followed.links.iter().filter(|link| *link != path) {
            if self.writable_root(link).is_some() {
                self.restrict(link.clone(), Effect::ReadOnly, reason.clone());
            }
        }
        let end = followed.end;
        let Some(root) = self.root_of(&end, effect != Effect::Hide) else { return };
        if self.roots.iter().any(|(root, _)| root.starts_with(&end)) {
            let root = root.display();
            let what =
                format!("{} leads to {root}: protecting it would protect all", path.display());
            self.refused.push(what);
        } else if fs::symlink_metadata(&end).is_ok() {
            self.restrict(end, effect, reason.clone());
        } else if effect != Effect::Hide {
            self.restrict_missing(&end, None, reason.clone());
        }
    }

    /// Keeps what a link at `path` leads to as it is, because the host executes it.
    pub fn keep_targets(&mut self, path: &Path) {
        let text = "a program on the host runs it through a link".into();
        let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
        self.restrict_targets(path, Effect::ReadOnly, &reason);
    }

    /// Returns what is restricted, how and why.
    pub fn restrictions(&self) -> impl Iterator<Item = (&Path, Effect, &Reason)> {
        self.restrictions.iter().map(|(path, effect, reason, _)| (path.as_path(), *effect, reason))
    }

    /// Returns whether something is made at this path, which is missing.
    pub fn is_placed(&self, path: &Path) -> bool {
        self.placeholders.iter().any(|made| made.path == path && made.content.is_none())
    }

    /// Returns whether a path is read-only because of its name, and nothing in it is pinfold's own.
    pub fn is_only_protected(&self, path: &Path) -> bool {
        let of_this = self.restrictions().filter(|(it, ..)| *it == path);
        let mut is_any = false;
        let is_by_name = of_this.into_iter().all(|(_, effect, reason)| {
            is_any = true;
            effect == Effect::ReadOnly && reason.why == Why::HostExecutes
        });
        let mut below = self.restrictions().filter(|(it, ..)| it.starts_with(path));
        is_any && is_by_name && below.all(|(_, _, reason)| reason.why != Why::Own)
    }

    /// Returns what is hidden.
    pub fn hidden(&self) -> HashSet<PathBuf> {
        let hidden = self.restrictions.iter().filter(|(_, effect, ..)| *effect == Effect::Hide);
        hidden.map(|(path, ..)| path.clone()).collect()
    }

    /// Returns the restrictions, without those in what is hidden or replaced: nothing of the host's can
    /// be reached there.
    ///
    /// # Errors
    /// Returns an error for a link that leads to a whole grant.
    pub fn finish(&mut self) -> Result<Vec<Restriction>, Refusal> {
        if let Some(what) = self.refused.first() {
            return Err(Refusal::new(what).with_hint("remove the link".to_owned()));
        }
        let hidden = self.hidden();
        let substitutes = &self.substitutes;
        let is_gone = |path: &Path| hidden.contains(path) || substitutes.contains_key(path);
        let in_hidden = |path: &Path| path.ancestors().skip(1).any(is_gone);
        let mut made = HashSet::new();
        self.placeholders
            .retain(|place| !in_hidden(&place.path) && made.insert(place.path.clone()));
        std::mem::take(&mut self.restrictions)
            .into_iter()
            .filter(|(path, ..)| !in_hidden(path))
            .map(|(path, effect, reason, source)| {
                let host = HostPath::new(path).map_err(Refusal::new)?;
                Ok(Restriction { host, effect, reason, source })
            })
            .collect()
    }
}

/// Where a link leads.
pub struct Followed {
    /// The links on the way.
    pub links: Vec<PathBuf>,
    /// The end, which may be missing.
    pub end: PathBuf,
}

/// Follows the links that an absolute path leads through or to; `None` when there are none, or
/// when they lead in circles and so nowhere.
pub fn follow(path: &Path) -> Option<Followed> {
    let Way { links, end, .. } = resolve(path);
    let end = end?;
    (!links.is_empty()).then_some(Followed { links, end })
}

/// The way of a path to what lies at it (path_resolution(7)).
pub(crate) struct Way {
    /// The links on the way.
    pub(crate) links: Vec<PathBuf>,
    /// What is left by `..` although it is no directory: a program that makes one, or a link to one, decides where the way goes on.
    pub(crate) left: Vec<PathBuf>,
    /// The end, without links and dots. It may be missing; none where links lead in circles.
    pub(crate) end: Option<PathBuf>,
}

/// Follows an absolute path through links and dots.
pub(crate) fn resolve(path: &Path) -> Way {
    let (mut links, mut left) = (Vec::new(), Vec::new());
    let mut queue: VecDeque<OsString> = names(path);
    let mut here = PathBuf::from("/");
    while let Some(name) = queue.pop_front() {
        if name == ".." {
            if !fs::symlink_metadata(&here).is_ok_and(|found| found.is_dir()) {
                left.push(here.clone());
            }
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let Ok(target) = fs::read_link(&next) else {
            here = next;
            continue;
        };
        if links.len() == MAX_LINKS {
            return Way { links, left, end: None };
        }
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        for name in names(&target).into_iter().rev() {
            queue.push_front(name);
        }
        links.push(next);
    }
    Way { links, left, end: Some(here) }
}

/// Returns the directories that an absolute path leaves by `..`, without links: a link in the place of one would have it lead
/// elsewhere.
pub fn left_by_dots(path: &Path) -> Vec<PathBuf> {
    let ends_with_dots = |path: &&Path| path.components().next_back() == Some(Component::ParentDir);
    let left = path.ancestors().filter(ends_with_dots).filter_map(Path::parent);
    left.filter_map(|left| resolve(left).end).collect()
}

/// Returns device and inode of a file that has more than one name.
pub fn linked_inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    (found.is_file() && found.nlink() > 1).then(|| (found.dev(), found.ino()))
}

/// Returns a path's components that lead somewhere.
fn names(path: &Path) -> VecDeque<OsString> {
    let component = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(component).collect()
}

/// Returns whether a directory holds nothing, or nothing but a git directory: programs that make
/// projects fail where they find anything else.
#[must_use]
pub fn holds_nothing(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.into_iter().all(|entry| entry.is_ok_and(|entry| entry.file_name() == ".git"))
}
