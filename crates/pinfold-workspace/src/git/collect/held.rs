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
}
