//! Submodules that a session made.
//!
//! `git submodule add` and `update --init` put a git directory into the private one
//! (`modules/NAME`) and a `.git` file into the workspace, which leads nowhere on the host. So the
//! git directory is rebuilt, as any new repository is, in the host's `.git/modules/NAME`, before a
//! branch with the submodule moves; while the session lives, if the host has the submodule in its
//! index. Nothing that the sandbox wrote is believed: the name is
//! refused unless it is harmless and free, both pointer files are written again from checked
//! parts, and a working tree counts only if it is reached through no link. The rest is set aside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pinfold_git::baseline::Start;
use pinfold_git::foreign::Foreign;
use pinfold_git::host_git::HostGit;
use pinfold_git::index::Index;
use pinfold_git::module_name::is_harmless;
use pinfold_git::modules::{Taken, names, taken};
use pinfold_git::opened::held;
use pinfold_git::settled::{Kept, Settled};
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;
use pinfold_host::beneath::{kind_at, list_beneath, open_directory};
use pinfold_host::file_id::FileId;
use pinfold_host::launcher::HostProgram;
use pinfold_policy::path::Escaped;
use pinfold_protect::patience::Patience;
use pinfold_protect::set_aside::SetAside;

use super::collect::Phase;
use super::private::Copied;
use super::rebuild::Reader;

mod place;
mod put;
mod settings;

use place::Tree;
use put::Old;
use settings::config_of;

/// Levels of submodules in submodules.
const DEEPEST: usize = 8;
/// Submodules that are rebuilt at most for one repository that a session made, and for all others.
const MOST: usize = 64;

/// The submodules of a session's repositories.
#[derive(Clone)]
pub(crate) struct Modules<'a> {
    /// The git directories that were there at the start.
    pub(crate) copied: &'a [Copied],
    /// Tops of the working trees that the session could write, each with its git directory.
    pub(crate) tops: &'a [(PathBuf, PathBuf)],
    pub(crate) git: HostProgram,
    pub(crate) session: &'a str,
    pub(crate) reader: Reader,
    pub(crate) phase: Phase,
    /// Where a git directory goes of which something was left out.
    pub(crate) aside: Option<&'a SetAside>,
    /// How long it may take; the rest waits for the next start.
    pub(crate) patience: Option<&'a Patience>,
}

/// What was rebuilt while the session lived, by the path on the host.
#[derive(Debug, Default)]
pub(crate) struct Made {
    directories: BTreeMap<PathBuf, Directory>,
    /// What could not be rebuilt is tried again at the end.
    failed: BTreeSet<PathBuf>,
}

/// One git directory that was rebuilt.
#[derive(Debug)]
struct Directory {
    host: Anchor,
    /// What the private directory held then.
    theirs: Start,
    /// What the host's held afterwards.
    ours: Start,
    /// What the user should know of it.
    note: String,
    /// Whether nothing was left out that the user may miss.
    is_whole: bool,
}

/// The `.git` files that lead to the host's git directories now.
pub(crate) type GitFiles = BTreeMap<PathBuf, FileId>;

impl Made {
    fn remember(
        &mut self,
        module: &Module<'_>,
        theirs: Start,
        read: &Foreign,
        host: Anchor,
    ) -> Anchor {
        let (ours, note) = (Start::read(host.path()), read.note(&module.tree.path));
        let is_whole = read.left_out.is_empty();
        let directory = Directory { host: host.clone(), theirs, ours, note, is_whole };
        self.directories.insert(host.path().to_owned(), directory);
        host
    }
}

/// A working tree with submodules.
struct Parent {
    top: PathBuf,
    /// Its own git directory.
    host: Anchor,
    /// That of its repository, which has the configuration.
    common: Anchor,
    private: PathBuf,
}

/// Returns a working tree of a repository: the main one or a linked one, whose submodules lie in its own git directory.
fn parent(copied: &Copied, top: &Path, git: &Path) -> Option<Parent> {
    let below = git.strip_prefix(copied.host.path()).ok()?;
    let is_linked = below.parent() == Some(Path::new("worktrees"));
    if !below.as_os_str().is_empty() && !is_linked {
        return None;
    }
    let (common, private) = (copied.host.clone(), copied.private.join(below));
    let host = if is_linked { common.below(below).ok()? } else { common.clone() };
    Some(Parent { top: top.to_owned(), host, common, private })
}

/// A submodule of one.
struct Module<'p> {
    parent: &'p Parent,
    name: PathBuf,
    private: PathBuf,
    /// Where its git directory lies, or is to lie, on the host.
    host: PathBuf,
    tree: Tree,
}

impl Modules<'_> {
    /// Returns it with this git, which bounds the time.
    pub(crate) fn with(&self, git: &HostProgram) -> Self {
        let reader = Reader { launcher: git.launcher().clone(), ..self.reader.clone() };
        Self { git: git.clone(), reader, ..self.clone() }
    }

    /// Rebuilds what is new. While the session lives, that is what is complete; at the end, what the
    /// session changed since, too.
    pub(crate) fn bring(&self, made: &mut Made, settled: &mut Settled) -> GitFiles {
        let mut files = GitFiles::new();
        for (top, git) in self.tops {
            if let Some(parent) = self.copied.iter().find_map(|copied| parent(copied, top, git)) {
                self.of(&parent, made, settled, &mut files, DEEPEST);
            }
        }
        files
    }

    /// Rebuilds the submodules of a repository that was rebuilt at `git`. The foreign one is at `foreign`.
    pub(crate) fn of_rebuilt(&self, foreign: &Path, git: &Path, settled: &mut Settled) -> GitFiles {
        let mut files = GitFiles::new();
        let Some((top, host)) = git.parent().zip(Anchor::of(git).ok()) else { return files };
        let common = host.clone();
        let parent = Parent { top: top.to_owned(), host, common, private: foreign.to_owned() };
        self.of(&parent, &mut Made::default(), settled, &mut files, DEEPEST);
        files
    }

    fn of(
        &self,
        parent: &Parent,
        made: &mut Made,
        settled: &mut Settled,
        files: &mut GitFiles,
        deepest: usize,
    ) {
        let Some(deepest) = deepest.checked_sub(1) else { return };
        let all = self.directories_of(parent).into_iter();
        let mut waiting: VecDeque<_> = all.map(|(name, private)| (name, private, false)).collect();
        while let Some((name, private, is_late)) = waiting.pop_front() {
            if self.patience.is_some_and(Patience::is_over) {
                return;
            }
            let host = parent.host.path().join("modules").join(&name);
            // Without its `.git` file the host has no use for it.
            let Some(tree) = Tree::find(&parent.top, &private, &host) else { continue };
            let module = Module { parent, name, private, host, tree };
            let is_known = self.tops.iter().any(|(_, git)| *git == module.host);
            if is_known || self.is_early(&module, made) {
                continue;
            }
            // One that this is too short for is tried once more with what the others leave.
            let share = self.with(&self.git.with_share_of(waiting.len() + 1));
            let tried = share.one(&module, made, settled);
            let has_run_out = share.git.is_out_of_time() && !self.git.is_out_of_time();
            match tried {
                Err(_) if has_run_out && !is_late => {
                    waiting.push_back((module.name, module.private, true));
                }
                Ok(host) => {
                    let top = module.tree.path.clone();
                    let (common, private) = (host.clone(), module.private.clone());
                    let inner = Parent { top, host, common, private };
                    share.of(&inner, made, settled, files, deepest);
                    self.finish(&module, made, settled, files);
                }
                Err(why) => {
                    made.failed.insert(module.host.clone());
                    let what = format!("submodule {}", Escaped(&module.tree.path));
                    settled.kept.push(Kept::new(what, why));
                }
            }
        }
    }

    /// Returns the names of submodules with the git directory that the session has for each. At the end
    /// those that only the host has count, too: a supervisor that was killed may have rebuilt one and
    /// set the session's aside.
    fn directories_of(&self, parent: &Parent) -> BTreeMap<PathBuf, PathBuf> {
        let of = |git: &Path| {
            let modules = git.join("modules");
            names(git).into_iter().map(move |name| (name.clone(), modules.join(name)))
        };
        let host = (self.phase == Phase::End).then(|| of(parent.host.path()));
        host.into_iter().flatten().chain(of(&parent.private)).collect()
    }

    /// Returns whether it has to wait for the end of the session: git may be at work on it, it could not
    /// be rebuilt, or git on the host does not know the submodule yet.
    fn is_early(&self, module: &Module<'_>, made: &Made) -> bool {
        if self.phase == Phase::End {
            return false;
        }
        let is_there =
            |name| open_directory(&module.private).is_ok_and(|it| kind_at(&it, name).is_some());
        let is_at_work = !is_there("index") || is_there("index.lock");
        let is_tracked = || {
            let path = module.tree.path.strip_prefix(&module.parent.top).ok()?;
            Index::open(module.parent.host.path())?.holds(path)
        };
        made.failed.contains(&module.host) || is_at_work || is_tracked() != Some(true)
    }

    /// Brings one submodule to the host; returns its git directory there.
    fn one(
        &self,
        module: &Module<'_>,
        made: &mut Made,
        settled: &mut Settled,
    ) -> Result<Anchor, Refusal> {
        if !is_harmless(&module.name) {
            return Err("its name is not used on the host".into());
        }
        let above = module.parent.host.open()?;
        match taken(&above, &module.name) {
            Taken::Conflict => {
                Err("its name conflicts with another one in `.git/modules` of the host".into())
            }
            Taken::There => {
                if self.phase == Phase::End {
                    self.finish_replacing(module, &above)?;
                }
                self.update(module, &above, made, settled)
            }
            Taken::Free if made.directories.len() + made.failed.len() >= MOST => Err(Refusal::new(
                format!("more than {MOST} submodules of a session are not rebuilt"),
            )),
            Taken::Free => {
                let theirs = Start::read(&module.private);
                let read = self.read(module)?;
                let host = self.place(module, &above, &read, Old::None)?;
                Ok(made.remember(module, theirs, &read, host))
            }
        }
    }

    /// Returns one that the host has: what the session added crosses if the session made it and nobody
    /// on the host changed it since.
    fn update(
        &self,
        module: &Module<'_>,
        above: &OwnedFd,
        made: &mut Made,
        settled: &mut Settled,
    ) -> Result<Anchor, Refusal> {
        let host = module.parent.host.below(&Path::new("modules").join(&module.name))?;
        self.connect(module, &host)?;
        // Commits of one that was there at the start cross by themselves.
        if self.phase == Phase::Live || self.copied.iter().any(|copied| copied.host == host) {
            return Ok(host);
        }
        let theirs = Start::read(&module.private);
        let last = made.directories.get(&module.host).filter(|last| last.host == host);
        if last.is_some_and(|last| last.theirs.names_the_same(&theirs)) {
            return Ok(host);
        }
        if last.is_some_and(|last| is_as_made(&host, &last.ours)) {
            let read = self.read(module)?;
            let host = self.place(module, above, &read, Old::Replaced)?;
            return Ok(made.remember(module, theirs, &read, host));
        }
        let ours = Start::read(host.path());
        if theirs.head("HEAD") != ours.head("HEAD") || theirs.refs() != ours.refs() {
            let what =
                format!("commits of the session in submodule {}", Escaped(&module.tree.path));
            let why = "the host has a git directory of its own for it; `git submodule update` checks \
                       out what it records";
            settled.kept.push(Kept::new(what, why));
        }
        Ok(host)
    }

    /// Has the host's git directory lead to the working tree, if it leads nowhere (after `git submodule deinit`).
    fn connect(&self, module: &Module<'_>, host: &Anchor) -> Result<(), Refusal> {
        match config_of(host)?.last("core.worktree") {
            Some(named)
                if pinfold_git::pointer::normal(&host.path().join(&named)) == module.tree.path =>
            {
                Ok(())
            }
            Some(_) => Err("its git directory on the host has another working tree".into()),
            None => {
                let path = module.tree.from(host.path()).ok_or("its path cannot be written")?;
                let git = HostGit { program: &self.git, directory: host };
                git.run(&["config", "--local", "core.worktree", &path], None)?;
                Ok(())
            }
        }
    }

    fn read(&self, module: &Module<'_>) -> Result<Foreign, Refusal> {
        let mut read = self.reader.read(&module.private)?;
        // These are written again where they are needed.
        read.left_out.retain(|what| what != "core.worktree");
        read.leave_out_no_modules();
        Ok(read)
    }

    /// Sets aside what the session had if something was left out of the new one.
    fn set_aside(&self, module: &Module<'_>, settled: &mut Settled) {
        let parent = module.private.parent().and_then(|parent| open_directory(parent).ok());
        let name = module.name.file_name();
        let Some(((aside, parent), name)) = self.aside.zip(parent).zip(name) else { return };
        if let Err(error) = aside.take(&parent, Path::new(name), &module.host) {
            let what = format!("what was left out of submodule {}", Escaped(&module.tree.path));
            settled.kept.push(Kept::new(what, format!("it cannot be set aside: {error}")));
        }
    }

    /// Makes the submodule an active one, and writes its `.git` file.
    fn finish(
        &self,
        module: &Module<'_>,
        made: &mut Made,
        settled: &mut Settled,
        files: &mut GitFiles,
    ) {
        let done = self.activate(module, made).and_then(|()| match self.phase {
            // The session may be writing it.
            Phase::Live => Ok(()),
            Phase::End => module.tree.write(&module.host, self.session),
        });
        let file = module.tree.path.join(".git");
        match done {
            Ok(()) => files.extend(FileId::of(&file).ok().map(|id| (file, id))),
            Err(why) => {
                let what = format!("submodule {}", Escaped(&module.tree.path));
                settled.kept.push(Kept::new(what, why));
            }
        }
        let directory = made.directories.get(&module.host);
        let Some(directory) = directory.filter(|_| self.phase == Phase::End) else { return };
        settled.taken.push(format!("submodule {}", directory.note));
        if !directory.is_whole {
            self.set_aside(module, settled);
        }
    }
}

/// Lists the git directories of submodules in a git directory, also those of linked worktrees.
pub(crate) fn directories(git: &Path) -> impl Iterator<Item = PathBuf> {
    let linked = open_directory(git).and_then(|git| list_beneath(git, Path::new("worktrees")));
    let linked = linked.into_iter().flatten().flatten().take(MOST);
    let linked: Vec<PathBuf> =
        linked.map(|entry| git.join("worktrees").join(entry.file_name())).collect();
    std::iter::once(git.to_owned()).chain(linked).flat_map(|git| {
        let modules = git.join("modules");
        names(&git).into_iter().map(move |name| modules.join(name))
    })
}

/// Returns whether nobody has worked in a git directory on the host since it was made: git has stored no
/// object there and moved nothing.
fn is_as_made(host: &Anchor, ours: &Start) -> bool {
    let Ok(objects) = host.open_below(Path::new("objects")) else { return false };
    let names = fs::read_dir(held(&objects)).into_iter().flatten().flatten();
    let has_objects = names.map(|entry| entry.file_name()).any(|name| name.len() == 2);
    let now = Start::read(host.path());
    !has_objects && now.names_the_same(ours) && now.settings() == ours.settings()
}
