//! Commits that a repository records of its submodules.
//!
//! `git submodule update` on the host checks out what the repository around a submodule records, as long as the git
//! directory of the submodule has that commit; a commit of a session's is there also if its branch waits for the user.
//! Which path has which submodule is up to `.gitmodules`, which a session can write, so each submodule counts.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pinfold_git::baseline::Start;
use pinfold_git::stamp::Stamps;
use pinfold_git::state::State;
use pinfold_host::Refusal;
use pinfold_host::anchor::Anchor;

use super::Collect;
use crate::git::modules;
use crate::git::private::Copied;

/// Levels of recorded commits in recorded commits that are judged.
const DEEPEST: usize = 8;

/// Recorded commits that are judged at most in one round: each costs some ten programs of git.
const MOST: usize = 1024;

/// What is known of recorded commits in one round, and how deep one commit records another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    /// Whether a commit would put something in place that tools run or trust.
    judged: Rc<RefCell<BTreeMap<String, bool>>>,
    depth: usize,
    /// Whether a session made the repository that is judged.
    pub(super) is_of_session: bool,
}

impl Collect<'_> {
    /// Returns the number of the first of these recorded commits that would put something in place that tools run or trust. One that
    /// no other repository of the session has counts as such: a later session can make it.
    pub(super) fn first_protected(&self, commits: &[&str]) -> Result<Option<usize>, Refusal> {
        let judged = |commit: &str| self.recorded.judged.borrow().get(commit).copied();
        let new: BTreeSet<&str> =
            commits.iter().copied().filter(|commit| judged(commit).is_none()).collect();
        let is_too_much = self.recorded.judged.borrow().len() + new.len() > MOST;
        if !new.is_empty() && !is_too_much && self.recorded.depth < DEEPEST {
            self.judge_recorded(&new.into_iter().collect::<Vec<_>>())?;
        }
        Ok(commits.iter().position(|commit| judged(commit).unwrap_or(true)))
    }

    fn judge_recorded(&self, commits: &[&str]) -> Result<(), Refusal> {
        let depth = self.recorded.depth + 1;
        let mut found: BTreeMap<&str, bool> = BTreeMap::new();
        for (copied, state) in self.others() {
            let recorded = Recorded { depth, is_of_session: false, ..self.recorded.clone() };
            let out = self.out.clone();
            let mut collect = Collect { copied: &copied, out, recorded, ..*self };
            let there = collect.those_there(commits)?;
            let is_of_session = !there.is_empty() && collect.host().is_of_session()?;
            collect.recorded.is_of_session = is_of_session;
            let state = if is_of_session { State::default() } else { state };
            for commit in there {
                let is_known = found.get(commit) == Some(&true);
                if !is_known {
                    let is_protected = collect.touches_protected(&state, commit)?.is_some()
                        || is_of_session && collect.puts_protected(&state, commit)?;
                    found.insert(commit, is_protected);
                }
            }
        }
        let judged = commits
            .iter()
            .map(|commit| ((*commit).to_owned(), found.get(commit).copied().unwrap_or(true)));
        self.recorded.judged.borrow_mut().extend(judged);
        Ok(())
    }

    /// Returns whether a commit has something that tools run or trust otherwise than HEAD had it. Of a repository that a session made,
    /// HEAD alone is known, as far as a working tree has its files: neither what is below it nor another branch was ever in one.
    fn puts_protected(&self, state: &State, commit: &str) -> Result<bool, Refusal> {
        Ok(self.stages_protected(state, None, &format!("{commit}^{{tree}}"))?.is_some())
    }

    /// Returns whether a recorded commit can be judged only when the session is over: no other repository has it, so that it can still
    /// be made, or one does that a session made, of which the working tree counts.
    pub(super) fn is_judged_at_end(&self, commit: &str) -> bool {
        let mut is_anywhere = false;
        let is_of_session = self.others().iter().any(|(copied, _)| {
            let collect =
                Collect { copied, out: self.out.clone(), recorded: self.recorded.clone(), ..*self };
            let is_there = collect.those_there(&[commit]).is_ok_and(|there| !there.is_empty());
            is_anywhere |= is_there;
            is_there && collect.host().is_of_session().unwrap_or(true)
        });
        is_of_session || !is_anywhere
    }

    /// Returns the other repositories of the session, each with what is known of it.
    fn others(&self) -> Vec<(Cow<'_, Copied>, State)> {
        let others = self.all.iter().filter(|copied| copied.host != self.copied.host);
        let there = others.map(|copied| (Cow::Borrowed(copied), State::at(&copied.start)));
        // Of one that the session made only its HEAD is known: what its working tree had of that was looked through.
        let made = self.made().map(|copied| (Cow::Owned(copied), State::default()));
        there.chain(made).collect()
    }

    /// Returns the repositories that were made since the start. Those that the session made were rebuilt before.
    fn made(&self) -> impl Iterator<Item = Copied> {
        let modules = modules::directories(self.copied.host.path());
        let hosts = modules.chain(self.rebuilt.iter().cloned());
        let hosts: Vec<Anchor> = hosts.filter_map(|git| Anchor::of(&git).ok()).collect();
        let is_new = |host: &Anchor| {
            *host != self.copied.host && !self.all.iter().any(|copied| copied.host == *host)
        };
        hosts.into_iter().filter(is_new).map(|host| Copied {
            start: Start::read(host.path()),
            host,
            private: PathBuf::new(),
            base: PathBuf::new(),
            number: 0,
            stamps: Stamps::default(),
            own_stamps: None,
        })
    }

    /// Returns those of these commits that the repository has.
    fn those_there<'c>(&self, commits: &[&'c str]) -> Result<Vec<&'c str>, Refusal> {
        let asked: String = commits.iter().map(|commit| format!("{commit}\n")).collect();
        let how = ["cat-file", "--batch-check=%(objecttype)"];
        let said = self.host().run(&how, Some(asked.as_bytes()))?;
        let kinds = said.lines().chain(std::iter::repeat(""));
        let is_there = |(_, kind): &(&&str, &str)| *kind == "commit";
        Ok(commits.iter().zip(kinds).filter(is_there).map(|(commit, _)| *commit).collect())
    }
}

/// Returns the numbers of repositories, a submodule before the repository around it: what a commit of that one records is
/// judged by what the submodule holds by then.
pub(crate) fn inner_first<'p>(hosts: impl Iterator<Item = &'p Path>) -> Vec<usize> {
    let mut all: Vec<(usize, usize)> =
        hosts.map(|host| host.components().count()).enumerate().collect();
    all.sort_by_key(|(_, depth)| std::cmp::Reverse(*depth));
    all.into_iter().map(|(number, _)| number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submodules_come_before_the_repository_around_them() {
        let hosts = ["/w/.git/modules/a", "/w/.git", "/w/b/.git", "/w/.git/modules/a/modules/c"];
        assert_eq!(inner_first(hosts.map(Path::new).into_iter()), [3, 0, 2, 1]);
    }
}
