//! What the authority says the kernel will answer, and whether it did.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use pinfold_policy::access::Access;
use pinfold_policy::authority::{
    Authority, Decision, Effect, Entry, HostTree, Kind, Located, Place, Resolved,
};
use pinfold_policy::path::HostPath;

use crate::probe::{Answer, Op, Request, scratch};
use crate::world::{Dice, World};

/// What the authority says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// It is allowed and there: it succeeds.
    Success,
    /// It is allowed: it succeeds, unless the two places are different mounts (`EXDEV`) or one
    /// lies in the other (`EINVAL`), which is no refusal.
    SuccessOnOneMount,
    /// It is refused or not there: it fails.
    Failure,
    /// It succeeds and shows this file of the host.
    Shows(u64, u64),
    /// It fails, or shows something else than this file of the host.
    DoesNotShow(u64, u64),
    /// It succeeds and reads this.
    Reads(Vec<u8>),
    /// It fails, or reads nothing.
    ReadsNothing,
}

impl Expect {
    fn from(allowed: bool) -> Self {
        if allowed { Self::Success } else { Self::Failure }
    }

    /// Whether the kernel's answer is the authority's.
    pub(crate) fn is_met(&self, answer: &Answer) -> bool {
        match self {
            Self::Success => answer.succeeded(),
            Self::SuccessOnOneMount => {
                answer.succeeded() || [libc::EXDEV, libc::EINVAL].contains(&answer.errno)
            }
            Self::Failure => !answer.succeeded(),
            Self::Shows(device, inode) => {
                answer.succeeded() && answer.identity == (*device, *inode)
            }
            Self::DoesNotShow(device, inode) => {
                !answer.succeeded() || answer.identity != (*device, *inode)
            }
            Self::Reads(content) => answer.succeeded() && answer.content == *content,
            Self::ReadsNothing => !answer.succeeded() || answer.content.is_empty(),
        }
    }
}

/// The authority's side of one case.
pub(crate) struct Judge<'a> {
    pub(crate) authority: &'a Authority,
    pub(crate) world: &'a World,
}

impl Judge<'_> {
    /// What to try, each with what is expected: first what changes nothing, then the rest, which
    /// puts back what it changed.
    pub(crate) fn cases(&self, dice: &mut Dice) -> Vec<(Request, Expect)> {
        let mut paths = self.paths();
        let mut chosen = BTreeSet::new();
        for _ in 0..70 {
            if !paths.is_empty() {
                chosen.insert(paths.swap_remove(dice.below(paths.len())));
            }
        }
        let targets = self.writable_directories();
        let mut cases = Vec::new();
        for path in &chosen {
            let spelled = spell(path, dice);
            for op in [Op::Stat, Op::Read, Op::List, Op::Write, Op::Chmod, Op::Watch] {
                cases.extend(self.on_the_file(op, &spelled));
            }
            // Starting a program costs as much as all the rest.
            if dice.percent(15) {
                cases.extend(self.on_the_file(Op::Execute, &spelled));
            }
            cases.extend(self.create(&spelled));
            cases.extend(self.create(&scratch(&spelled)));
        }
        for path in &chosen {
            cases.extend(self.delete(path));
            let parent = path.parent().unwrap_or(path);
            cases.extend(self.rename(path, parent, Expect::Success));
            if !targets.is_empty() {
                let into = dice.pick(&targets);
                cases.extend(self.rename(path, into, Expect::SuccessOnOneMount));
                cases.extend(self.link(path, into));
            }
        }
        cases
    }

    /// Every node's path on the host and wherever a grant shows it, the directories that lead to
    /// grants, and names that do not exist.
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = BTreeSet::new();
        for node in &self.world.nodes {
            paths.insert(node.path.clone());
            paths.insert(node.path.join("a"));
            let Ok(host) = HostPath::new(&node.path) else { continue };
            let shown = self.authority.grants().filter_map(|grant| grant.inside_of(&host));
            paths.extend(shown.map(|inside| inside.as_path().to_owned()));
        }
        for grant in self.authority.grants() {
            let above = grant.root.inside.ancestors().filter(|path| !path.is_root());
            paths.extend(above.map(|path| path.as_path().to_owned()));
        }
        paths.insert(self.world.base.join("missing"));
        paths.into_iter().collect()
    }

    fn writable_directories(&self) -> Vec<PathBuf> {
        let may_write = |path: &PathBuf| {
            let found = self.decide(Access::WRITE, path);
            found.is_some_and(|(_, allowed)| allowed)
        };
        self.world
            .of(crate::world::Kind::Directory)
            .filter(|path| may_write(path))
            .cloned()
            .collect()
    }

    fn decide(&self, access: Access, path: &Path) -> Option<(Resolved, bool)> {
        let (resolved, decision) = self.authority.decide_path(&HostTree, access, path).ok()?;
        let allowed = matches!(decision, Decision::Allow(_));
        Some((resolved, allowed))
    }

    fn on_the_file(&self, op: Op, path: &Path) -> Option<(Request, Expect)> {
        let access = match op {
            Op::Stat => Access::METADATA,
            Op::Read => Access::READ,
            Op::List => Access::LIST,
            Op::Write | Op::Chmod => Access::WRITE,
            Op::Execute => Access::EXECUTE,
            Op::Watch => Access::WATCH,
            Op::Create | Op::Delete | Op::Move | Op::Link => return None,
        };
        let (resolved, allowed) = self.decide(access, path)?;
        let expect = match resolved.place() {
            Place::Granted(Located { entry: Some(entry), host, .. }) => {
                if !applies(op, entry, host.as_path()) {
                    return None;
                }
                if allowed { shown(op, host.as_path())? } else { Expect::Failure }
            }
            Place::Granted(Located { entry: None, .. }) => Expect::Failure,
            Place::Synthetic(_) => match op {
                Op::Stat | Op::List | Op::Chmod | Op::Watch => Expect::from(allowed),
                _ => return None,
            },
            Place::Hidden { host, .. } => match (op, fs::symlink_metadata(host)) {
                (Op::Stat, Ok(found)) => Expect::DoesNotShow(found.dev(), found.ino()),
                // What is hidden looks empty.
                (Op::Read | Op::List, _) => Expect::ReadsNothing,
                (Op::Watch, _) => return None,
                _ => Expect::Failure,
            },
            Place::Absent(_) | Place::Blocked { .. } => Expect::Failure,
        };
        Some((Request { op, path: path.to_owned(), to: PathBuf::new() }, expect))
    }

    /// Making a file that is not there yet, perhaps through a link that leads nowhere.
    fn create(&self, path: &Path) -> Option<(Request, Expect)> {
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return None;
        }
        let (resolved, allowed) = self.decide(Access::WRITE, path)?;
        let made = match resolved.place() {
            Place::Granted(Located { entry: Some(_), .. }) => return None,
            Place::Granted(Located { entry: None, inside, .. }) => inside.as_path().to_owned(),
            _ => path.to_owned(),
        };
        let is_too_long = made.file_name().is_some_and(|name| name.len() > 255);
        let request = Request { op: Op::Create, path: path.to_owned(), to: made };
        Some((request, Expect::from(allowed && !is_too_long)))
    }

    fn delete(&self, path: &Path) -> Option<(Request, Expect)> {
        let (resolved, allowed) = self.decide(Access::DELETE, path)?;
        if self.leads_through_itself(&resolved) {
            return None;
        }
        let second = scratch(path.parent()?);
        let expect = Expect::from(allowed && self.is_movable(&resolved));
        Some((Request { op: Op::Delete, path: path.to_owned(), to: second }, expect))
    }

    fn rename(&self, path: &Path, into: &Path, success: Expect) -> Option<(Request, Expect)> {
        let to = scratch(into);
        let (resolved, may_move) = self.decide(Access::MOVE, path)?;
        if self.leads_through_itself(&resolved) {
            return None;
        }
        let (_, may_make) = self.decide(Access::WRITE, &to)?;
        let expect = if may_move && may_make && self.is_movable(&resolved) {
            success
        } else {
            Expect::Failure
        };
        Some((Request { op: Op::Move, path: path.to_owned(), to }, expect))
    }

    /// Whether the way to it is a link that lies in it, be it where another grant shows it: it
    /// could be taken away, but not put back.
    fn leads_through_itself(&self, resolved: &Resolved) -> bool {
        let Some(host) = resolved.host() else { return false };
        resolved.hops().iter().any(|hop| {
            let link = self.authority.governing(&hop.link).and_then(|by| by.host_of(&hop.link));
            link.is_some_and(|link| link.starts_with(host))
        })
    }

    /// Whether it is there and the host itself could move it.
    fn is_movable(&self, resolved: &Resolved) -> bool {
        let is_bound = |host: &HostPath| self.world.is_bound(host.as_path());
        is_there(resolved) && !resolved.host().is_some_and(is_bound)
    }

    /// A second name for a file makes it writable there.
    fn link(&self, path: &Path, into: &Path) -> Option<(Request, Expect)> {
        let to = scratch(into);
        let resolved = self.authority.resolve_name(&HostTree, path).ok()?;
        if let Place::Granted(Located { entry: Some(entry), .. }) = resolved.place()
            && entry.kind == Kind::Directory
        {
            return None;
        }
        let may_write = self.authority.decide(Access::WRITE, &resolved).is_allowed();
        let (_, may_make) = self.decide(Access::WRITE, &to)?;
        let expect = if may_write && may_make && is_there(&resolved) {
            Expect::SuccessOnOneMount
        } else {
            Expect::Failure
        };
        Some((Request { op: Op::Link, path: path.to_owned(), to }, expect))
    }

    /// What a hidden file holds, which no answer may contain.
    pub(crate) fn secrets(&self) -> Vec<Vec<u8>> {
        let hidden = |path: &&PathBuf| {
            self.authority.restrictions().any(|restriction| {
                restriction.effect == Effect::Hide && path.starts_with(restriction.host.as_path())
            })
        };
        let mut secrets = Vec::new();
        for path in self.world.of(crate::world::Kind::File).filter(hidden) {
            let has_one_name = fs::symlink_metadata(path).is_ok_and(|found| found.nlink() == 1);
            // A name elsewhere is not hidden by hiding this one.
            secrets.extend(fs::read(path).ok().filter(|_| has_one_name));
        }
        secrets
    }
}

/// Whether an operation makes sense for what is there.
fn applies(op: Op, entry: &Entry, host: &Path) -> bool {
    let is_executable =
        || fs::metadata(host).is_ok_and(|found| found.permissions().mode() & 0o111 != 0);
    match op {
        Op::List => entry.kind == Kind::Directory,
        Op::Read | Op::Write => entry.kind == Kind::File,
        Op::Execute => entry.kind == Kind::File && is_executable(),
        Op::Stat | Op::Chmod | Op::Watch | Op::Create | Op::Delete | Op::Move | Op::Link => true,
    }
}

fn shown(op: Op, host: &Path) -> Option<Expect> {
    Some(match op {
        Op::Stat => {
            let found = fs::symlink_metadata(host).ok()?;
            Expect::Shows(found.dev(), found.ino())
        }
        Op::Read => Expect::Reads(fs::read(host).ok()?),
        _ => Expect::Success,
    })
}

fn is_there(resolved: &Resolved) -> bool {
    match resolved.place() {
        Place::Granted(located) => located.entry.is_some(),
        Place::Synthetic(_) => true,
        Place::Hidden { .. } | Place::Absent(_) | Place::Blocked { .. } => false,
    }
}

/// The same path as somebody may write it.
fn spell(path: &Path, dice: &mut Dice) -> PathBuf {
    if !dice.percent(15) {
        return path.to_owned();
    }
    let (above, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    match dice.below(4) {
        0 => above.join(".").join(name),
        1 => above.join(name).join("..").join(name),
        2 => PathBuf::from("//").join(path).join(""),
        _ => above.join("..").join(above.file_name().unwrap_or_default()).join(name),
    }
}
