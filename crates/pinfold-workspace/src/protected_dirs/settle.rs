//! What the host takes of the copies at the end.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use pinfold_git::settled::{Kept, Settled};
use pinfold_host::Refusal;
use pinfold_host::beneath::open_directory;
use pinfold_host::launcher::HostProgram;
use pinfold_policy::path::Escaped;
use pinfold_protect::set_aside::{SetAside, kept};
use pinfold_trees::tree::Tree;

use super::apply::{Expected, Refused, Target};
use super::changes::{File, Found};
use super::{Content, ProtectedDir};
use crate::git::committed::{Committed, Repository};
use crate::git::private::Copied;

/// What is set aside of one directory one by one at most. More than that is set aside as a whole.
const MOST_NAMED: usize = 64;
const CHANGED: &str = "the host changed it in the meantime";
const REBUILT: &str = "a session made this repository; `git config --unset pinfold.rebuilt` takes its \
                       branches for yours";
const MOVED: &str = "the host replaced the directory in the meantime";

/// What a session's changes are judged by.
#[derive(Clone, Copy)]
pub struct Settling<'a> {
    pub(crate) git: Option<&'a HostProgram>,
    /// The working trees at the start, each with its git directory.
    pub(crate) tops: &'a [(PathBuf, PathBuf)],
    pub(crate) copies: &'a [Copied],
    pub(crate) aside: &'a SetAside,
    pub(crate) session: &'a str,
}

impl<'a> Settling<'a> {
    /// Returns the repository of the user's that a path lies in.
    ///
    /// # Errors
    /// Returns an error if it lies in no repository, with a reason if a session made the repository.
    pub(super) fn repository(&self, path: &Path) -> Result<Repository<'a>, Option<&'static str>> {
        let git = self.git.ok_or(None)?;
        let found = Repository::of(path, self.tops, self.copies, git).ok_or(None)?;
        match found.is_of_user() {
            Ok(true) => Ok(found),
            Ok(false) => Err(Some(REBUILT)),
            Err(_) => Err(None),
        }
    }
}

/// What came of the paths of one directory.
#[derive(Default)]
struct Judged {
    applied: Vec<PathBuf>,
    /// What is set aside, with the reason if it is not that tools run it.
    left: Vec<(PathBuf, Option<&'static str>)>,
    /// What the sandbox deleted and the host keeps.
    stays: Vec<(PathBuf, &'static str)>,
}

/// Compares the copies with the start, writes to the host what its branches had at the start, and
/// sets the rest aside. Call it when HEAD is where the session has it.
pub fn settle(settling: &Settling<'_>, dirs: &[ProtectedDir], settled: &mut Settled) {
    for dir in dirs {
        if let Err(why) = one(settling, dir, settled) {
            let what = format!("changes in {}", Escaped(&dir.path));
            settled.kept.push(Kept::new(what, why));
        }
    }
}

fn one(settling: &Settling<'_>, dir: &ProtectedDir, settled: &mut Settled) -> Result<(), Refusal> {
    // The sandbox could put a link in the place of any directory on the way.
    let opened = open_directory(&dir.copy);
    let tree = opened.map_err(|errno| format!("the sandbox moved its copy ({errno})"))?;
    let tree = Tree::of(tree);
    let found = Found::below(&tree, Path::new(""));
    if found.is_too_much {
        return set_aside_as_a_whole(settling, dir, settled);
    }
    let changed = found.changed(&tree, &dir.entries);
    let deleted = found.deleted(&dir.entries);
    if changed.is_empty() && deleted.is_empty() && found.other.is_empty() {
        return Ok(());
    }
    let mut judged = judge(settling, dir, &tree, changed, deleted);
    judged.left.extend(found.other.iter().map(|path| (path.clone(), None)));
    report(settling, dir, &tree, &judged, settled)
}

fn judge(
    settling: &Settling<'_>,
    dir: &ProtectedDir,
    tree: &Tree,
    changed: Vec<PathBuf>,
    deleted: Vec<PathBuf>,
) -> Judged {
    let mut judged = Judged::default();
    let host = dir.host.as_ref().and_then(|host| host.open().ok()).map(Tree::of);
    let Some((host, owner)) = host
        .and_then(|host| Some((owner_of(&host, dir)?, host)))
        .map(|(owner, host)| (host, owner))
    else {
        judged.left = changed.into_iter().map(|path| (path, Some(MOVED))).collect();
        judged.stays = deleted.into_iter().map(|path| (path, MOVED)).collect();
        return judged;
    };
    let target = Target { tree: &host, owner, session: settling.session };
    let (repository, why) = match settling.repository(&dir.path) {
        Ok(repository) => (Some(repository), None),
        Err(why) => (None, why),
    };
    let deletions = repository
        .as_ref()
        .filter(|_| !deleted.is_empty())
        .and_then(|it| it.deletions(&[&dir.path]).ok().flatten());
    for path in deleted {
        let is_committed = deletions.as_ref().is_some_and(|it| it.has(&dir.path.join(&path)));
        let removed = dir.entries.get(&path).filter(|_| is_committed);
        match removed.map(|entry| target.remove(&path, entry)) {
            Some(Ok(())) => judged.applied.push(path),
            Some(Err(_)) => judged.stays.push((path, CHANGED)),
            None => judged.stays.push((path, "no branch of yours that is checked out deleted it")),
        }
    }
    let committed = repository
        .and_then(|repository| repository.committed(&[&dir.path]).ok())
        .unwrap_or_default();
    for path in changed {
        match write(dir, tree, &target, &committed, &path) {
            Ok(true) => judged.applied.push(path),
            Ok(false) => judged.left.push((path, why)),
            Err(Refused::Changed) => judged.left.push((path, Some(CHANGED))),
            Err(Refused::System(_)) => {
                judged.left.push((path, Some("it could not be written to the host's directory")));
            }
        }
    }
    judged
}

/// Returns the owner of new files in the directory. A placeholder gets the owner of the directory around it.
fn owner_of(host: &Tree, dir: &ProtectedDir) -> Option<(u32, u32)> {
    if dir.is_placeholder {
        let around = Tree::of(open_directory(dir.path.parent()?).ok()?);
        return Some(around.node_of_root().ok()?.owner);
    }
    Some(host.node_of_root().ok()?.owner)
}

/// Writes a file or link to the host if a commit of the start has it; returns whether it has.
fn write(
    dir: &ProtectedDir,
    tree: &Tree,
    target: &Target<'_>,
    committed: &Committed,
    path: &Path,
) -> Result<bool, Refused> {
    // Of what was hidden nothing is known.
    if path.ancestors().any(|above| dir.hidden.iter().any(|hidden| hidden == above)) {
        return Ok(false);
    }
    let Some(file) = File::committed(tree, path, committed, &dir.path.join(path)) else {
        return Ok(false);
    };
    if File::read(target.tree, path).is_some_and(|host| host.content() == file.content()) {
        return Ok(true);
    }
    let start = dir.entries.get(path).filter(|entry| entry.content != Content::Directory);
    if dir.is_placeholder {
        target.adopt_top()?;
    }
    target.put(path, &file, start.map_or(Expected::Nothing, Expected::Start))?;
    Ok(true)
}

fn report(
    settling: &Settling<'_>,
    dir: &ProtectedDir,
    tree: &Tree,
    judged: &Judged,
    settled: &mut Settled,
) -> Result<(), Refusal> {
    if !judged.applied.is_empty() {
        let count = judged.applied.len();
        let files = if count == 1 { "file" } else { "files" };
        let what = format!("{count} {files} in {}, as your branches had them", Escaped(&dir.path));
        settled.taken.push(what);
    }
    for (path, why) in judged.stays.iter().take(MOST_NAMED) {
        let what = format!("{} (deleted in the sandbox; it stays)", Escaped(&dir.path.join(path)));
        settled.kept.push(Kept::new(what, *why));
    }
    if judged.stays.len() > MOST_NAMED {
        let what = format!(
            "{} more deleted files in {}",
            judged.stays.len() - MOST_NAMED,
            Escaped(&dir.path)
        );
        settled.kept.push(Kept::new(what, "they stay like the others"));
    }
    let left = judged.left.iter().map(|(path, _)| path);
    let is_old =
        |path: &Path| dir.entries.get(path).is_some_and(|it| it.content == Content::Directory);
    let units = units(left, &judged.applied, is_old);
    let is_gone = dir.is_placeholder && judged.applied.is_empty() && !units.is_empty();
    if is_gone || units.len() > MOST_NAMED || units.contains(Path::new("")) {
        return set_aside_as_a_whole(settling, dir, settled);
    }
    let top = tree.directory(Path::new(""))?;
    for unit in units {
        let whole = dir.path.join(&unit);
        give_back(dir, &dir.copy.join(&unit));
        let taken = settling.aside.take_beneath(&top, &unit, &whole).map_err(Refusal::from);
        let why = judged.left.iter().find(|(path, why)| *path == unit && why.is_some());
        settled.kept.push(match (taken, why.and_then(|(_, why)| *why)) {
            (Ok(()), Some(why)) => kept(&whole, why),
            (Ok(()), None) => of_class(dir, &whole),
            (Err(error), _) => Kept::new(Escaped(&whole).to_string(), error),
        });
    }
    Ok(())
}

fn of_class(dir: &ProtectedDir, path: &Path) -> Kept {
    let opt_in = dir.opt_in.clone().map(Into::into);
    Kept { opt_in, ..kept(path, dir.why.clone()) }
}

/// Sets the whole copy aside.
fn set_aside_as_a_whole(
    settling: &Settling<'_>,
    dir: &ProtectedDir,
    settled: &mut Settled,
) -> Result<(), Refusal> {
    let parent = dir.copy.parent().ok_or("it has no directory")?;
    let parent = open_directory(parent)?;
    let name = Path::new(dir.copy.file_name().ok_or("it has no name")?);
    give_back(dir, &dir.copy);
    settling.aside.take(&parent, name, &dir.path)?;
    settled.kept.push(of_class(dir, &dir.path));
    Ok(())
}

/// Gives what is set aside to the owner of the directory, where the sandbox had another user. Nothing
/// runs any more that could change it.
fn give_back(dir: &ProtectedDir, path: &Path) {
    let host = dir.path.parent().and_then(|above| open_directory(above).ok()).map(Tree::of);
    let owner = host.and_then(|host| Some(host.node_of_root().ok()?.owner));
    if let Some((uid, gid)) =
        owner.filter(|_| pinfold_boundary::namespace::inside_owner().is_some())
    {
        // What cannot be given stays with the id that stands for the sandbox.
        let _ = pinfold_boundary::ownership::give(path, uid, gid);
    }
}

/// Returns the uppermost new files and directories in which nothing was applied.
pub(super) fn units<'p>(
    left: impl Iterator<Item = &'p PathBuf>,
    applied: &[PathBuf],
    is_old: impl Fn(&Path) -> bool,
) -> BTreeSet<PathBuf> {
    let around: HashSet<&Path> = applied.iter().flat_map(|path| path.ancestors().skip(1)).collect();
    let unit = |path: &PathBuf| {
        let above = path.ancestors().filter(|it| !it.as_os_str().is_empty() && *it != path);
        let new = above.filter(|it| !is_old(it) && !around.contains(it));
        new.last().unwrap_or(path).to_owned()
    };
    left.map(unit).collect()
}
