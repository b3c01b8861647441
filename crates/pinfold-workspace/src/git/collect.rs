//! Bringing a repository of the host and the private one of a session in step.
//!
//! Both sides are compared with their last common state. What one side moved crosses to the other:
//! branches, new tags, the stash, where HEAD is, and what is staged. A branch goes where the session
//! has it only if the host did not move it, if nothing that the host had at the start is lost by
//! that, and if the new commits change nothing that tools run by themselves. Otherwise the session's
//! side is kept as `refs/pinfold/<session>/…`, and a message says so. Tags are never moved, and
//! nothing is deleted on the host. Notes and other references are kept as `refs/pinfold/<session>/…`; remote-tracking
//! branches, replacements and everything else never leave a session.
//!
//! Git that reads what a session wrote runs in scratch sandboxes. The host writes nothing into the
//! private directory; what enters it is brought in by a scratch sandbox, too.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_git::host_git::HostGit;
use pinfold_git::refs::{
    Refs, bound_new, is_object, is_remote, parse_refs, parse_sides, parse_stashes, parse_unused,
    parse_unused_heads,
};
use pinfold_git::settled::{Kept, Settled};
use pinfold_git::special_files;
use pinfold_git::state::{Side, State};
use pinfold_git::worktrees::{self, Worktree};
use pinfold_host::Refusal;
use pinfold_host::beneath::{open_directory, read_bounded};
use pinfold_host::launcher::HostProgram;
use pinfold_names::{Protection, Site};
use pinfold_protect::commands::Commands;

use super::import::{ASKED, CHECKED, SAID};
use super::private::Copied;

mod bring;
mod exchange;
mod follow;
mod gitlinks;
mod held;
mod incoming;
mod judged;
mod moves;
mod notes;
mod recorded;
mod touched;
mod unchanged;

use exchange::LONGEST_LIST;
use held::Held;
use judged::Finding;
pub(crate) use recorded::{Recorded, inner_first};

/// How long all programs may take together that bring one repository in step. A session can make many slow ones of them.
const LONGEST: Duration = Duration::from_secs(300);

/// References that a session brings, or moves. Ten seconds pass until git has made so many.
const MOST_NEW: usize = 100_000;

/// Characters of what git says of an object.
const LONGEST_REASON: usize = 200;

/// Why something stays in the session of which objects are missing.
const MISSING: &str =
    "part of their history is missing in the session, as after `git fetch --depth`";

/// Whether the session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It does: what is not settled yet has time.
    Live,
    /// It has ended.
    End,
}

/// What a session may move of the host's references. The rest is kept below `refs/pinfold`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MayMove<'a> {
    All,
    /// This reference alone.
    Only(&'a str),
    Nothing,
}

impl<'a> MayMove<'a> {
    pub(crate) fn only(reference: Option<&'a str>) -> Self {
        reference.map_or(Self::All, Self::Only)
    }
}

/// How much of what is unusual in a session comes out.
struct Limits {
    /// Checks that divide what git refuses: of a small pack, and of a large one.
    checks: [usize; 2],
    /// References under names that are not used.
    unused: usize,
}

const LIVE: Limits = Limits { checks: [16, 16], unused: 0 };
/// Its user waits for the end of a session.
const AT_END: Limits = Limits { checks: [256, 16], unused: 100 };
/// The user has asked for it.
const ADOPTED: Limits = Limits { checks: [4096, 4096], unused: 100_000 };

/// Which repository, and with which programs.
pub(crate) struct Collect<'a> {
    pub(crate) copied: &'a Copied,
    /// All of the session's, that one among them: submodules are repositories of their own.
    pub(crate) all: &'a [Copied],
    /// Git directories that the session made and that were rebuilt.
    pub(crate) rebuilt: &'a [PathBuf],
    pub(crate) git: &'a HostProgram,
    pub(crate) session: &'a str,
    pub(crate) may_move: MayMove<'a>,
    pub(crate) out: PathBuf,
    /// Tops of the working trees that the session could write, each with its git directory.
    pub(crate) tops: &'a [(PathBuf, PathBuf)],
    /// Names that tools on the host run by themselves.
    pub(crate) protection: &'a Protection,
    /// What the session could write, each with where it lies.
    pub(crate) roots: &'a [(PathBuf, Site)],
    /// Paths that they run or trust because something names them.
    pub(crate) named: &'a [PathBuf],
    /// What the user's shell would run instead of the system's programs.
    pub(crate) commands: &'a Commands,
    /// Files that are hidden from the session.
    pub(crate) hidden: &'a [PathBuf],
    pub(crate) phase: Phase,
    pub(crate) recorded: Recorded,
}

impl Collect<'_> {
    /// Brings both sides in step when the session is over. Without a state nothing was brought in step
    /// since the start.
    ///
    /// # Errors
    /// Returns the errors of [`Self::collect`].
    pub(crate) fn collect_at_end(
        &self,
        state: Option<State>,
        settled: &mut Settled,
    ) -> Result<(), Refusal> {
        // To make the state of a start takes as long as to copy its references.
        if state.is_none() && self.copied.own_stamps.is_some() && self.copied.is_unchanged() {
            return Ok(());
        }
        let mut state = state.unwrap_or_else(|| State::at(&self.copied.start));
        self.collect(&mut state, settled)
    }

    /// Brings both sides in step.
    ///
    /// # Errors
    /// Returns what went wrong. What was not taken over is in the private directory still.
    pub(crate) fn collect(&self, state: &mut State, settled: &mut Settled) -> Result<(), Refusal> {
        // The session could put a link in its place.
        open_directory(&self.copied.private).map_err(Refusal::about("the copy"))?;
        // Long after its end a session moves nothing in working trees.
        let tops = if matches!(self.may_move, MayMove::Nothing) { &[] } else { self.tops };
        let all = worktrees::list(&self.copied.host, tops);
        // An attempt that was interrupted may have moved the references already.
        let is_first = !state.is_complete && self.copied.own_stamps.is_some();
        let is_host_known = || self.phase == Phase::End || self.copied.is_host_unchanged();
        if is_first && is_host_known() && self.copied.is_unchanged() {
            return Ok(());
        }
        for git in [self.copied.private.as_path(), self.copied.host.path()] {
            special_files::refuse(git)?;
        }
        let _ = fs::remove_dir_all(&self.out);
        let make = |path: &Path| fs::create_dir(path).map_err(Refusal::from);
        make(&self.out)?;
        [ASKED, SAID, CHECKED].iter().try_for_each(|name| make(&self.out.join(name)))?;
        pinfold_boundary::ownership::hand_over(&self.out)?;
        let git = self.git.within(LONGEST);
        let done = self.with(&git).both_ways(state, all, settled);
        let _ = fs::remove_dir_all(&self.out);
        done
    }

    fn both_ways(
        &self,
        state: &mut State,
        all: Vec<Worktree>,
        settled: &mut Settled,
    ) -> Result<(), Refusal> {
        let (within, elsewhere): (Vec<Worktree>, Vec<Worktree>) =
            all.into_iter().partition(|worktree| worktree.within);
        let ours = self.ours(&within)?;
        let mut theirs = self.export(state, &ours, &within)?;
        self.complete(state, &within, &ours);
        let (forward, touched) = self.take_objects(state, &ours, &mut theirs)?;
        let held = self.checked_out(&elsewhere);
        let crossing = self.without_new_gitlinks(state, &within, &theirs)?;
        let plan = Plan { ours: &ours, theirs: &crossing, forward, touched, held: &held };
        let followed = self.follow_all(state, &within, &plan, settled);
        self.move_refs(state, &plan, &followed, settled)?;
        if self.phase == Phase::End {
            // A session that goes on may take its stash back.
            self.store_stashes(state, &ours, &theirs, settled)?;
            self.keep_unused(state, &ours, &mut theirs, settled)?;
            self.note_deleted(state, &ours, &theirs, settled);
            self.note_worktrees(settled);
            return theirs.is_whole();
        }
        self.bring_in(state, &within, &theirs)
    }

    fn host(&self) -> HostGit<'_> {
        HostGit { program: self.git, directory: &self.copied.host }
    }

    /// Returns what the host holds.
    fn ours(&self, within: &[Worktree]) -> Result<Held, Refusal> {
        let format = "--format=%(objectname) %(refname) %(symref)";
        let listed = self.host().run(&["for-each-ref", format], None)?;
        // A symbolic one moves with what it names.
        let (listed, symbolic): (Vec<&str>, Vec<&str>) =
            listed.lines().partition(|line| line.ends_with(' '));
        let listed: String = listed.iter().map(|line| format!("{}\n", line.trim_end())).collect();
        let symbolic =
            symbolic.iter().filter_map(|line| line.split(' ').nth(1)).map(str::to_owned).collect();
        let has_stash = listed.lines().any(|line| line.ends_with(" refs/stash"));
        let list = ["log", "-g", "-s", "--no-show-signature", "--no-decorate", "--no-notes"];
        let of_stash = ["--format=%H %gs", "refs/stash", "--"];
        let stashes = if has_stash {
            self.host().run(&[&list[..], &of_stash[..]].concat(), None)?
        } else {
            String::new()
        };
        let remotes = listed
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(_, name)| is_remote(name))
            .map(|(object, name)| (name.to_owned(), object.to_owned()))
            .collect();
        let trees =
            within.iter().map(|worktree| self.side_of(worktree)).collect::<Result<_, _>>()?;
        let (refs, unused) = (parse_refs(&listed), parse_unused(&listed));
        let stashes = parse_stashes(&stashes);
        Ok(Held { refs, symbolic, remotes, unused, stashes, trees, lost: BTreeMap::new() })
    }

    /// Returns where history begins if it was cut off (git-fetch(1), `--depth`).
    fn shallow(&self) -> Result<String, Refusal> {
        let host = self.copied.host.open()?;
        let content = read_bounded(host, Path::new("shallow"), LONGEST_LIST)
            .map_err(|unread| format!("shallow {unread}"))?;
        Ok(content.map_or_else(String::new, |it| String::from_utf8_lossy(&it.bytes).into_owned()))
    }

    /// Returns what the private directory holds. The objects that only it has are packed.
    fn export(&self, state: &State, ours: &Held, within: &[Worktree]) -> Result<Held, Refusal> {
        let stashes = ours.stashes.iter().map(|stash| &stash.commit);
        let others = ours.unused.iter().map(|(object, _)| object);
        let tips = ours.refs.values().chain(ours.remotes.values()).chain(stashes).chain(others);
        self.write("tips", &tips.map(|object| format!("{object}\n")).collect::<String>())?;
        let head = |(number, worktree): (usize, &Worktree)| {
            format!("{number} {} {}\n", worktree.head, worktree.path_of("index"))
        };
        self.write("shallow", &self.shallow()?)?;
        self.write("worktrees", &within.iter().enumerate().map(head).collect::<String>())?;
        self.helper("export")?;
        let mut listed = self.read(SAID, "refs")?;
        let start = self.copied.start.refs();
        let is_known = |object: &str, name: &str| {
            [&ours.refs, &start].iter().any(|refs| refs.get(name).is_some_and(|its| its == object))
        };
        let dropped = bound_new(&mut listed, MOST_NEW.saturating_sub(state.made.len()), is_known);
        let (mut refs, mut unused) = (parse_refs(&listed), parse_unused(&listed));
        refs.retain(|name, _| !ours.symbolic.contains(name));
        let heads = self.read(SAID, "heads")?;
        let is_there = |commit: &String| {
            let heads = ours.trees.iter().filter_map(|side| side.head.commit.as_ref());
            heads.chain(ours.refs.values()).chain(ours.remotes.values()).any(|it| it == commit)
        };
        unused
            .extend(parse_unused_heads(&heads).into_iter().filter(|(commit, _)| !is_there(commit)));
        let sides = parse_sides(&heads);
        let side = |number: usize| {
            let mut side = sides.get(&number).cloned().unwrap_or_default();
            // A branch is where the list has it, which the rules judge: the session goes on, and may
            // have moved it in between.
            if let Some(branch) = &side.head.branch {
                side.head.commit = refs.get(branch).cloned();
            }
            side
        };
        let trees = (0..within.len()).map(side).collect();
        let stashes = parse_stashes(&self.read(SAID, "stash")?);
        let (symbolic, remotes) = (BTreeSet::new(), Refs::new());
        let mut theirs =
            Held { refs, symbolic, remotes, unused, stashes, trees, lost: BTreeMap::new() };
        theirs.leave_out(&self.objects(SAID, "missing")?, MISSING, ours);
        theirs.leave_unread(dropped, MOST_NEW, ours);
        Ok(theirs)
    }

    /// Completes, the first time, what the working trees had in common at the start: where HEAD was, and
    /// what is staged on the host if that is as it was; else what HEAD holds.
    fn complete(&self, state: &mut State, within: &[Worktree], ours: &Held) {
        if state.is_complete {
            return;
        }
        state.is_complete = true;
        // References in tables (`reftable`) are read by git alone.
        let is_table = self.copied.host.path().join("reftable").exists();
        if is_table {
            state.refs.clone_from(&ours.refs);
            state.start.clone_from(&ours.refs);
            state.remotes.clone_from(&ours.remotes);
        }
        for (worktree, side) in within.iter().zip(&ours.trees) {
            let head = if is_table {
                side.head.clone()
            } else {
                self.copied.start.head(&worktree.head).unwrap_or_default()
            };
            let tree = if self.copied.is_as_copied(&worktree.path_of("index")) {
                side.tree.clone()
            } else {
                head.commit.as_ref().and_then(|commit| self.tree_of(commit))
            };
            state.trees.insert(worktree.head.clone(), Side { head, tree });
        }
    }

    fn tree_of(&self, commit: &str) -> Option<String> {
        self.host().line(&["rev-parse", "-q", "--verify", &format!("{commit}^{{tree}}")])
    }

    /// Checks the new objects and stores them in the host's repository. Returns the references
    /// that may move, and those whose new commits change what tools run by themselves.
    fn take_objects(
        &self,
        state: &State,
        ours: &Held,
        theirs: &mut Held,
    ) -> Result<(HashSet<String>, BTreeMap<String, Finding>), Refusal> {
        if !self.check(state, ours, theirs)? {
            return Ok((HashSet::new(), BTreeMap::new()));
        }
        let refused = self.objects(CHECKED, "refused")?;
        theirs.leave_out(&refused, &self.why_refused()?, ours);
        self.store_incoming()?;
        self.store_large_files()?;
        let forward = self.read(CHECKED, "forward")?;
        let moved = moved(state, theirs);
        let mut may_move: HashSet<String> = forward.lines().map(str::to_owned).collect();
        let is_new =
            |name: &&String| !state.start.contains_key(*name) && !ours.refs.contains_key(*name);
        may_move.extend(moved.clone().map(|(name, _)| name).filter(is_new).cloned());
        // A branch that the session made may go anywhere.
        let is_own =
            |name: &&String| !state.start.contains_key(*name) && ours.refs.contains_key(*name);
        may_move.extend(moved.clone().map(|(name, _)| name).filter(is_own).cloned());
        let touched = self.judge(state, moved);
        Ok((may_move, touched))
    }

    /// Has a scratch sandbox check the new objects, if there may be any.
    fn check(&self, state: &State, ours: &Held, theirs: &Held) -> Result<bool, Refusal> {
        let moved = moved(state, theirs);
        let is_news = moved.clone().next().is_some()
            || self.phase == Phase::End
                && (theirs
                    .stashes
                    .iter()
                    .any(|it| !ours.stashes.iter().any(|our| our.commit == it.commit))
                    || !theirs.unused.is_subset(&ours.unused))
            || theirs.trees.iter().ne(&ours.trees);
        if !is_news {
            return Ok(false);
        }
        let updates = moved.clone().filter_map(|(name, new)| {
            let base = state.start.get(name).or_else(|| ours.refs.get(name))?;
            Some(format!("{base} {new} {name}\n"))
        });
        self.write("updates", &updates.collect::<String>())?;
        let stashes = theirs.stashes.iter().map(|stash| &stash.commit);
        let heads = theirs.trees.iter().flat_map(|side| side.head.commit.iter().chain(&side.tree));
        let lines = |objects: &mut dyn Iterator<Item = &String>| -> String {
            objects.map(|object| format!("{object}\n")).collect()
        };
        self.write("stash", &lines(&mut stashes.clone()))?;
        // All that may come to be named on the host, what is checked out first.
        let unused = theirs.unused.difference(&ours.unused).map(|(object, _)| object);
        let mut all = heads.chain(theirs.refs.values()).chain(stashes).chain(unused);
        self.write("new", &lines(&mut all))?;
        let [small, large] = self.limits().checks;
        self.write("most", &format!("{small} {large}\n"))?;
        self.helper("check")?;
        Ok(true)
    }

    /// Returns objects that a scratch sandbox lists.
    fn objects(&self, part: &str, name: &str) -> Result<HashSet<String>, Refusal> {
        let listed = self.read(part, name)?;
        Ok(listed.lines().filter(|line| is_object(line)).map(str::to_owned).collect())
    }

    /// Returns why git refused an object.
    fn why_refused(&self) -> Result<String, Refusal> {
        let said = self.read(CHECKED, "why")?;
        let said = said.lines().next().unwrap_or_default();
        let said = said.trim_start_matches("error: ").chars().take(LONGEST_REASON);
        let said = said.collect::<String>();
        Ok(format!("git refuses an object of them ({})", said.escape_debug()))
    }

    /// Branches that are checked out in working trees that the session did not see.
    fn checked_out<'w>(&self, elsewhere: &'w [Worktree]) -> HashMap<String, &'w Worktree> {
        let branch = |worktree: &'w Worktree| {
            let git = HostGit { program: self.git, directory: &worktree.git };
            let head = git.line(&["symbolic-ref", "-q", "HEAD"]);
            Some((head.or_else(|| worktrees::rebased(&worktree.git))?, worktree))
        };
        elsewhere.iter().filter_map(branch).collect()
    }

    /// Returns why the session may not move a reference of the host's, nor work on in one, if so.
    fn refuses(&self, name: Option<&str>) -> Option<String> {
        match self.may_move {
            MayMove::All => None,
            MayMove::Only(only) if name == Some(only) => None,
            MayMove::Only(only) => {
                let only = only.strip_prefix("refs/heads/").unwrap_or(only);
                Some(format!("an unattended run in a worktree moves the branch {only} alone"))
            }
            MayMove::Nothing => Some("the session is over".to_owned()),
        }
    }

    fn limits(&self) -> Limits {
        match (self.may_move, self.phase) {
            (MayMove::Nothing, _) => ADOPTED,
            // It may ask again at once.
            (_, Phase::Live) => LIVE,
            (_, Phase::End) => AT_END,
        }
    }

    /// Returns what the reflog says.
    fn reason(&self) -> String {
        format!("pinfold {}", self.session)
    }

    fn place(&self) -> std::path::Display<'_> {
        self.copied.host.path().display()
    }

    fn keep(&self, settled: &mut Settled, what: String, why: impl ToString) {
        settled.kept.push(Kept::new(what, why));
    }
}

/// What one round goes by.
struct Plan<'p> {
    ours: &'p Held,
    theirs: &'p Held,
    /// References that may go where the session has them.
    forward: HashSet<String>,
    /// References whose new commits change a file that tools run by themselves, or may.
    touched: BTreeMap<String, Finding>,
    /// Branches that are checked out where the session did not see it.
    held: &'p HashMap<String, &'p Worktree>,
}

/// Returns the references that the session moved since the last common state, with their new objects.
fn moved<'h>(
    state: &State,
    theirs: &'h Held,
) -> impl Iterator<Item = (&'h String, &'h String)> + Clone {
    let last = state.refs.clone();
    theirs.refs.iter().filter(move |(name, object)| last.get(*name) != Some(*object))
}
