//! Submodules that are new wait for the end of the session.
//!
//! `git status` on the host runs git in each working tree that the index has as a submodule, with the
//! configuration of whatever `.git` lies there (`core.fsmonitor` names a program). While the session
//! lives, that may be anything. At the end it is rebuilt or set aside.

use std::collections::BTreeMap;
use std::path::Path;

use pinfold_git::listed::gitlinks;
use pinfold_git::state::State;
use pinfold_git::worktrees::Worktree;
use pinfold_host::Refusal;

use super::touched::ALL_SUBMODULES;
use super::{Collect, Held, Phase, moved};

/// Pairs of commits that are compared at most while the session lives; what others name waits.
const MOST: usize = 512;

impl Collect<'_> {
    /// Returns what the session holds, without what brings a new submodule while the session lives:
    /// those branches, tags and working trees are as they were when both sides were last in step.
    pub(super) fn without_new_gitlinks(
        &self,
        state: &State,
        within: &[Worktree],
        theirs: &Held,
    ) -> Result<Held, Refusal> {
        let mut crossing = theirs.clone();
        if self.phase == Phase::End {
            return Ok(crossing);
        }
        // Many references name few commits, unless a session makes git slow.
        let mut compared: BTreeMap<(Option<&String>, &String), bool> = BTreeMap::new();
        for (name, new) in moved(state, theirs) {
            let last = state.refs.get(name).or_else(|| state.start.values().next());
            let is_new = match compared.get(&(last, new)) {
                Some(is_new) => *is_new,
                None => compared.len() >= MOST || self.has_new_gitlink(last, new)?,
            };
            compared.insert((last, new), is_new);
            if is_new {
                match state.refs.get(name) {
                    Some(last) => crossing.refs.insert(name.clone(), last.clone()),
                    None => crossing.refs.remove(name),
                };
            }
        }
        for (number, worktree) in within.iter().enumerate() {
            let Some(last) = state.trees.get(&worktree.head) else { continue };
            let side = &theirs.trees[number];
            let is_new = |last: Option<&String>, new: Option<&String>| match new {
                Some(new) if Some(new) != last => self.has_new_gitlink(last, new),
                _ => Ok(false),
            };
            if is_new(last.tree.as_ref(), side.tree.as_ref())?
                || is_new(last.tree.as_ref(), side.head.commit.as_ref())?
            {
                crossing.trees[number] = last.clone();
            }
        }
        Ok(crossing)
    }

    /// Returns whether a commit or tree has a submodule that another one lacks and whose working tree
    /// was not checked out at the start, or records a commit that is judged at the end.
    fn has_new_gitlink(&self, last: Option<&String>, new: &str) -> Result<bool, Refusal> {
        let new = format!("{new}^{{tree}}");
        // A tag may name anything.
        if self.host().object(&new)?.is_none() {
            return Ok(false);
        }
        let listed = match last {
            Some(last) => {
                let last = format!("{last}^{{tree}}");
                let how = ["diff-tree", "-r", "-z", "--no-renames", ALL_SUBMODULES];
                self.host().run_with(&[&how[..], &[&last, &new]].concat(), &[], None)?
            }
            None => self.host().run_with(&["ls-tree", "-r", "-z", &new], &[], None)?,
        };
        let mut links = gitlinks(&listed, last.is_some());
        Ok(links.any(|(path, commit)| !self.is_checked_out(path) || self.is_judged_at_end(commit)))
    }

    /// Returns whether the session could not write the `.git` of a submodule, which was there at the start.
    fn is_checked_out(&self, path: &Path) -> bool {
        self.own_tops().all(|top| self.tops.iter().any(|(other, _)| *other == top.join(path)))
    }

    /// Returns the tops of the repository's working trees.
    pub(super) fn own_tops(&self) -> impl Iterator<Item = &Path> {
        let host = self.copied.host.path();
        let is_own = move |git: &Path| git == host || git.starts_with(host.join("worktrees"));
        self.tops.iter().filter(move |(_, git)| is_own(git)).map(|(top, _)| top.as_path())
    }
}
