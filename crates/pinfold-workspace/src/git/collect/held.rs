//! What the host's repository and the session's hold.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use pinfold_git::refs::{Refs, Stash};
use pinfold_git::state::Side;
use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;

/// What one side of a repository holds.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) refs: Refs,
    /// References of the host's that name others; they are left alone.
    pub(super) symbolic: BTreeSet<String>,
    pub(super) remotes: Refs,
    /// Branches and tags under names that are not used, each after its object.
    pub(super) unused: BTreeSet<(String, String)>,
    /// The newest first.
    pub(super) stashes: Vec<Stash>,
    /// The working trees in the order of the list.
    pub(super) trees: Vec<Side>,
    /// What has to stay in the session, each with the reason: references, `HEAD`, or what is staged.
    pub(super) lost: BTreeMap<String, String>,
}

impl Held {
    /// Leaves what leads to some objects in the session. Branches and tags of the host's are taken as the host has them: the
    /// session did not delete them.
    pub(super) fn leave_out(&mut self, objects: &HashSet<String>, why: &str, ours: &Self) {
        let Self { refs, unused, stashes, trees, lost, .. } = self;
        let mut lose = |name: &str| drop(lost.insert(name.to_owned(), why.to_owned()));
        refs.retain(|name, object| {
            let goes = objects.contains(object);
            if goes {
                lose(name);
            }
            match ours.refs.get(name).filter(|_| goes) {
                Some(our) => our.clone_into(object),
                None if goes => return false,
                None => {}
            }
            true
        });
        unused.retain(|(object, name)| {
            let stays = !objects.contains(object);
            if !stays {
                lose(name);
            }
            stays
        });
        stashes.retain(|stash| {
            let stays = !objects.contains(&stash.commit);
            if !stays {
                lose("refs/stash");
            }
            stays
        });
        for side in trees {
            let goes =
                |object: &Option<String>| object.as_ref().is_some_and(|it| objects.contains(it));
            let (head, tree) = (goes(&side.head.commit), goes(&side.tree));
            if head && side.head.branch.is_none() {
                lose("HEAD");
            } else if tree && !head {
                lose("what is staged");
            }
            if head || tree {
                *side = Side::default();
            }
        }
    }

    /// Leaves what was not read in the session, of which some are named. The host's own are taken as the host has them: the session
    /// did not delete them.
    pub(super) fn leave_unread(&mut self, named: Vec<String>, most: usize, ours: &Self) {
        if named.is_empty() {
            return;
        }
        let why = format!("a session brings {most} references at most");
        self.lost.extend(named.into_iter().map(|name| (name, why.clone())));
        for (name, our) in &ours.refs {
            self.refs.entry(name.clone()).or_insert_with(|| our.clone());
        }
    }

    /// Checks that nothing had to stay in the session.
    ///
    /// # Errors
    /// Returns what had to, with the reasons.
    pub(super) fn is_whole(&self) -> Result<(), Refusal> {
        /// More are not named.
        const MOST: usize = 5;
        let reasons: BTreeSet<&String> = self.lost.values().collect();
        let reason = |why: &String| {
            let mut names =
                self.lost.iter().filter(|(_, its)| *its == why).map(|(name, _)| name.as_str());
            let first = names.by_ref().take(MOST);
            let first: Vec<String> =
                first.map(|name| Escaped(Path::new(name)).to_string()).collect();
            let more = if names.next().is_some() { ", …" } else { "" };
            format!("{}{more}: {why}", first.join(", "))
        };
        let reasons: Vec<String> = reasons.into_iter().map(reason).collect();
        if reasons.is_empty() { Ok(()) } else { Err(Refusal::new(reasons.join("; "))) }
    }

    /// Returns what a new branch or tag is not made for: the short name is also that of something of another kind. Then it depends
    /// on the command which of them `git merge NAME` or `git checkout NAME` takes (gitrevisions(7)).
    pub(super) fn other_of_name(&self, name: &str, short: &str) -> Option<&'static str> {
        let is_there = |other: &String| {
            self.refs.contains_key(other)
                || self.remotes.contains_key(other)
                || self.symbolic.contains(other)
        };
        let kinds = [
            (format!("refs/heads/{short}"), "branch"),
            (format!("refs/tags/{short}"), "tag"),
            (format!("refs/remotes/{short}"), "remote-tracking branch"),
            (format!("refs/remotes/{short}/HEAD"), "remote"),
        ];
        let mut others = kinds.into_iter().filter(|(other, _)| other != name);
        others.find(|(other, _)| is_there(other)).map(|(_, kind)| kind)
    }
}
