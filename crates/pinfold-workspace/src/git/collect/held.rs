//! What the host's repository and the session's hold.

use std::collections::BTreeSet;

use pinfold_git::refs::{Refs, Stash};
use pinfold_git::state::Side;
use pinfold_host::Refusal;

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
    /// Branches and tags of the session's of which objects are missing.
    pub(super) lost: BTreeSet<String>,
}

impl Held {
    /// Checks that no reference had to stay in the session.
    ///
    /// # Errors
    /// Returns the references of which objects are missing.
    pub(super) fn is_whole(&self) -> Result<(), Refusal> {
        /// More are not named.
        const MOST: usize = 5;
        let names: Vec<&str> = self.lost.iter().take(MOST).map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        let (names, more) = (names.join(", "), if self.lost.len() > MOST { ", …" } else { "" });
        let why = "part of their history is missing in the session, as after `git fetch --depth`";
        Err(Refusal::new(format!("{names}{more}: {why}")))
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
