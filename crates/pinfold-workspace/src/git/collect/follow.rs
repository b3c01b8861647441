//! The host's HEAD and index follow a working tree in which the session worked.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use pinfold_git::abbreviated::that_objects_have;
use pinfold_git::host_git::HostGit;
use pinfold_git::refs::{Head, shell_word};
use pinfold_git::settled::Settled;
use pinfold_git::staging::{Locked, Staging, StagingError};
use pinfold_git::stamp::{OF_STOPPED, STOPPED};
use pinfold_git::state::{Side, State};
use pinfold_git::worktrees::{self, Worktree};
use pinfold_host::Refusal;
use pinfold_host::beneath::{kind_at, open_directory};
use rustix::fs::{AtFlags, unlinkat};

use super::judged::Finding;
use super::{Collect, Phase, Plan, touched};

/// What says that a command was stopped that only its user can finish.
const OF_OTHERS: [&str; 4] = ["rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG"];

/// What became of the working trees of the host's that were to follow the session's.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// Branches that were moved, or have time until the end.
    pub(super) branches: Vec<String>,
    /// Branches that are in use in a working tree which did not follow, with the reason. If one of
    /// them moved, the index would be of another commit, and the next commit would revert the session's.
    pub(super) stay: BTreeMap<String, String>,
}

/// Why a branch stays that the host has checked out while the session works on another one.
const CHECKED_OUT: &str = "it is checked out on the host";

/// Why a branch stays that `git rebase --abort` on the host would reset, and a rebase that ends there would not move.
const REBASED: &str = "a rebase of it is stopped on the host";

/// A working tree three times: as it was the last time, and as the host and the session have it now.
#[derive(Clone, Copy)]
struct Sides<'a> {
    last: &'a Side,
    ours: &'a Side,
    theirs: &'a Side,
}

impl Collect<'_> {
    /// Returns where a working tree of the host's is, and what is staged in it.
    pub(super) fn side_of(&self, worktree: &Worktree) -> Result<Side, Refusal> {
        let git = HostGit { program: self.git, directory: &worktree.git };
        let head = Head {
            branch: git.line(&["symbolic-ref", "-q", "HEAD"]),
            commit: git.line(&["rev-parse", "-q", "--verify", "HEAD^{commit}"]),
        };
        Ok(Side { head, tree: Staging::copy(git, &self.copied.host, self.session)?.tree() })
    }

    /// Lets each working tree of the host's follow the session's.
    pub(super) fn follow_all(
        &self,
        state: &mut State,
        within: &[Worktree],
        plan: &Plan<'_>,
        settled: &mut Settled,
    ) -> Followed {
        let mut followed = Followed::default();
        let rebased = within.iter().filter_map(|worktree| worktrees::rebased(&worktree.git));
        followed.stay.extend(rebased.map(|branch| (branch, REBASED.to_owned())));
        for (number, worktree) in within.iter().enumerate() {
            let (ours, theirs) = (&plan.ours.trees[number], &plan.theirs.trees[number]);
            let our_branch = ours.head.branch.clone();
            let last = state.trees.get(&worktree.head).cloned();
            let Some(last) = last.filter(|last| theirs != last) else {
                followed.stay.extend(our_branch.map(|branch| (branch, CHECKED_OUT.to_owned())));
                continue;
            };
            let sides = Sides { last: &last, ours, theirs };
            if theirs.head == Head::default() {
                // Where the session stands, or what is staged there, stays in it.
                match self.phase {
                    Phase::Live => followed.branches.extend(our_branch),
                    Phase::End => self.follow_with_own(state, worktree, plan, sides, &mut followed),
                }
                continue;
            }
            if ours.head == theirs.head && ours.tree == theirs.tree {
                state.trees.insert(worktree.head.clone(), theirs.clone());
                continue;
            }
            let mut moved = self.follow(state, worktree, plan, sides, Locked::Briefly);
            // Editors and prompts have `git status` write the index every now and then.
            if moved.as_ref().is_err_and(is_staged_since) {
                moved = self.follow(state, worktree, plan, sides, Locked::Throughout);
            }
            match moved {
                Ok(branch) => {
                    followed.branches.extend(branch);
                    state.trees.insert(worktree.head.clone(), theirs.clone());
                }
                // There is time until the end. The session may stand on another branch, such as in a rebase.
                Err(_) if self.phase == Phase::Live => {
                    followed.branches.extend(theirs.head.branch.clone());
                    followed.branches.extend(our_branch);
                }
                Err(why) => {
                    let why = why.to_string();
                    self.keep_head(worktree, &last, theirs, &why, settled);
                    let branch = theirs.head.branch.clone();
                    let is_in_use =
                        ours.head.branch == branch || self.is_stopped(worktree).is_some();
                    followed.stay.extend(branch.filter(|_| is_in_use).map(|branch| (branch, why)));
                    self.follow_with_own(state, worktree, plan, sides, &mut followed);
                }
            }
        }
        followed
    }

    /// Brings one to where the session has it. Returns the branch that was moved.
    fn follow(
        &self,
        state: &mut State,
        worktree: &Worktree,
        plan: &Plan<'_>,
        sides: Sides<'_>,
        locked: Locked,
    ) -> Result<Option<String>, Refusal> {
        match self.is_stopped(worktree) {
            Some(why) => Err(why.into()),
            None => self.follow_to(state, worktree, plan, sides, locked),
        }
    }

    /// Has one follow its own branch, or notes why that stays.
    fn follow_with_own(
        &self,
        state: &mut State,
        worktree: &Worktree,
        plan: &Plan<'_>,
        sides: Sides<'_>,
        followed: &mut Followed,
    ) {
        match self.follow_own(state, worktree, plan, sides) {
            Ok(branch) => followed.branches.extend(branch),
            Err(why) => {
                let our_branch = sides.ours.head.branch.clone();
                followed.stay.extend(our_branch.map(|branch| (branch, why.to_string())));
            }
        }
    }

    /// Has one follow the branch that the host has checked out, if the session moved that and stands elsewhere at its end.
    /// What is staged on the host stays. Returns the branch if it was moved.
    fn follow_own(
        &self,
        state: &mut State,
        worktree: &Worktree,
        plan: &Plan<'_>,
        Sides { last, ours, theirs }: Sides<'_>,
    ) -> Result<Option<String>, Refusal> {
        let branch =
            ours.head.branch.as_ref().filter(|own| theirs.head.branch.as_ref() != Some(*own));
        let moved = branch.and_then(|branch| Some((branch, plan.theirs.refs.get(branch)?)));
        let Some((branch, commit)) =
            moved.filter(|(_, new)| ours.head.commit.as_ref() != Some(*new))
        else {
            return Ok(None);
        };
        if let Some(why) = self.is_stopped_on_host(worktree) {
            return Err(why.into());
        }
        let tree = |commit: &Option<String>| commit.as_ref().and_then(|it| self.tree_of(it));
        let from = tree(&last.head.commit).or_else(|| last.tree.clone());
        let last = Side { head: last.head.clone(), tree: from };
        let head = Head { branch: Some(branch.clone()), commit: Some(commit.clone()) };
        let theirs = Side { tree: tree(&head.commit), head };
        let sides = Sides { last: &last, ours, theirs: &theirs };
        self.follow_to(state, worktree, plan, sides, Locked::Throughout)
    }

    fn follow_to(
        &self,
        state: &mut State,
        worktree: &Worktree,
        plan: &Plan<'_>,
        sides: Sides<'_>,
        locked: Locked,
    ) -> Result<Option<String>, Refusal> {
        self.check_follows(state, worktree, plan, sides)?;
        let Sides { last, ours, theirs } = sides;
        let branch = theirs.head.branch.as_ref();
        let our = branch.and_then(|branch| plan.ours.refs.get(branch));
        let new = theirs.head.commit.as_ref();
        let moves = branch.is_some() && our != new;
        let git = HostGit { program: self.git, directory: &worktree.git };
        let staging = Staging::make(git, &self.copied.host, self.session, locked)?;
        if last.tree != theirs.tree {
            self.stage(state, worktree, sides, &staging)?;
        }
        let reason = self.reason();
        staging.install(|| {
            if let (Some(branch), Some(new)) = (branch.filter(|_| moves), new) {
                let old = our.map_or(NONE, String::as_str);
                git.run(&["update-ref", "-m", &reason, branch, new, old], None)?;
            }
            match (branch, new) {
                (Some(branch), _) if last.head.branch.as_ref() != Some(branch) => {
                    git.run(&["symbolic-ref", "-m", &reason, "HEAD", branch], None)?;
                }
                (None, Some(new)) if theirs.head != ours.head => {
                    git.run(&["update-ref", "-m", &reason, "--no-deref", "HEAD", new], None)?;
                }
                _ => {}
            }
            Ok(())
        })?;
        if let (Some(branch), Some(new)) = (branch, new) {
            state.refs.insert(branch.clone(), new.clone());
        }
        self.finish_merge(worktree);
        Ok(branch.cloned())
    }

    /// Refuses what the host's HEAD may not follow.
    fn check_follows(
        &self,
        state: &State,
        worktree: &Worktree,
        plan: &Plan<'_>,
        Sides { last, ours, theirs }: Sides<'_>,
    ) -> Result<(), Refusal> {
        let branch = theirs.head.branch.as_ref();
        if let Some(why) = self.refuses(branch.map(String::as_str)) {
            return Err(why.into());
        }
        // An attempt that was interrupted may have moved it already.
        if ours.head != last.head && ours.head != theirs.head {
            return Err("the host's branch moved in the meantime".into());
        }
        let new = theirs.head.commit.as_ref();
        let Some(branch) = branch else {
            let moved = new.filter(|new| ours.head.commit.as_ref() != Some(*new));
            let touched = moved.map(|new| self.touches_protected(state, new)).transpose()?;
            let Some(path) = touched.flatten() else { return Ok(()) };
            let kept = format!("refs/pinfold/{}/{}", self.session, worktree.head);
            let command = format!("git checkout {}", shell_word(&kept));
            return Err(touched::reason_with(Finding::Brings(path), &command).into());
        };
        if let Some(found) = plan.touched.get(branch) {
            return Err(touched::reason(found, self.session).into());
        }
        if plan.held.contains_key(branch) {
            return Err("its branch is checked out in another worktree".into());
        }
        let our = plan.ours.refs.get(branch);
        if our.is_none() {
            let of_objects = that_objects_have(self.host(), [branch.as_str()].into_iter())?;
            if let Some(why) = self.is_ambiguous(plan.ours, branch, &of_objects) {
                return Err(why.into());
            }
        }
        if our != new && (our != state.refs.get(branch) || !plan.forward.contains(branch)) {
            return Err("it is not a fast-forward of the host's branch".into());
        }
        Ok(())
    }

    /// Stages what the session has staged.
    fn stage(
        &self,
        state: &State,
        worktree: &Worktree,
        Sides { last, ours, theirs }: Sides<'_>,
        staging: &Staging<'_>,
    ) -> Result<(), Refusal> {
        let tree = theirs.tree.as_ref().ok_or("a conflict is staged in it")?;
        if let Some(path) = self.stages_protected(state, last.tree.as_deref(), tree)? {
            return Err(Refusal::new(format!(
                "{path} is staged in it, which tools run or trust by themselves"
            )));
        }
        let is_as_at_the_start = self.copied.is_as_copied(&worktree.path_of("index"));
        // A conflict that the session resolved.
        let staged = if ours.tree.is_none() && is_as_at_the_start {
            staging.reset(tree)
        } else {
            staging.merge(last.tree.as_deref(), tree)
        };
        let stands = |said| format!("what is staged on the host stands against it ({said})");
        Ok(staged.map_err(stands)?)
    }

    /// Keeps a HEAD that the host's did not follow.
    fn keep_head(
        &self,
        worktree: &Worktree,
        last: &Side,
        theirs: &Side,
        why: &str,
        settled: &mut Settled,
    ) {
        if theirs.head == last.head {
            let what = format!("what was staged in {}", worktree.top.display());
            return self.keep(settled, what, why);
        }
        // A branch is kept by its own name.
        let Some(commit) = theirs.head.commit.as_ref().filter(|_| theirs.head.branch.is_none())
        else {
            return;
        };
        let kept = format!("refs/pinfold/{}/{}", self.session, worktree.head);
        if let Err(error) = self.host().run(&["update-ref", &kept, commit], None) {
            return self.keep(settled, format!("HEAD of {}", worktree.top.display()), error);
        }
        let what = format!("HEAD of {}, kept as {kept}", worktree.top.display());
        self.keep(settled, what, why);
    }

    /// Returns why the host's working tree cannot follow now: somebody is in the middle of something.
    fn is_stopped(&self, worktree: &Worktree) -> Option<String> {
        self.is_stopped_on_host(worktree).or_else(|| {
            let copy = self.private_of(worktree)?;
            let mut all = STOPPED.iter().chain(&OF_OTHERS);
            let stopped = all.find(|name| kind_at(&copy, name).is_some())?;
            Some(format!("a command was stopped in it ({stopped})"))
        })
    }

    fn is_stopped_on_host(&self, worktree: &Worktree) -> Option<String> {
        let opened = worktree.git.open().ok()?;
        let is_there = |name: &&&'static str| kind_at(&opened, name).is_some();
        if let Some(name) = OF_OTHERS.iter().find(is_there) {
            return Some(format!("a command is stopped on the host ({name})"));
        }
        // One that the session finished is finished here, too, at the end.
        let may_be_finished = |name: &str| {
            self.phase == Phase::End && self.copied.is_as_copied(&worktree.path_of(name))
        };
        let is_merging = STOPPED.iter().filter(is_there).any(|name| !may_be_finished(name));
        is_merging.then(|| "a merge is stopped on the host".to_owned())
    }

    fn private_of(&self, worktree: &Worktree) -> Option<OwnedFd> {
        let relative = worktree.git.path().strip_prefix(self.copied.host.path()).ok()?;
        let is_itself = relative.as_os_str().is_empty();
        let private = &self.copied.private;
        let path = if is_itself { private.clone() } else { private.join(relative) };
        open_directory(&path).ok()
    }

    /// Removes what a merge, cherry-pick or revert left on the host that was stopped before the session
    /// and that the session finished. What came since is the user's.
    fn finish_merge(&self, worktree: &Worktree) {
        let Some((host, copy)) = worktree.git.open().ok().zip(self.private_of(worktree)) else {
            return;
        };
        for name in STOPPED.iter().chain(&OF_STOPPED) {
            let is_finished = kind_at(&copy, name).is_none();
            if is_finished && self.copied.is_as_copied(&worktree.path_of(name)) {
                // It is most often not there.
                let _ = unlinkat(&host, Path::new(name), AtFlags::empty());
            }
        }
    }
}

/// The object that git-update-ref(1) takes for "it must not be there".
const NONE: &str = "0000000000000000000000000000000000000000";

/// Returns whether this is why an index was not moved: somebody wrote it since it was copied.
fn is_staged_since(why: &Refusal) -> bool {
    let source = why.source().and_then(|source| source.downcast_ref());
    matches!(source, Some(StagingError::StagedSince))
}
