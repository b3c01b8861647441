//! What both sides of a repository held when they were last brought in step: the host's git
//! directory and the private one of a session.

use std::collections::{BTreeMap, BTreeSet};

use crate::baseline::Start;
use crate::refs::{Head, Refs};

/// The last common state. A reference that differs from it on one side was moved by that side.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Branches, tags and the stash.
    pub refs: Refs,
    /// Remote-tracking branches, which only the host moves.
    pub remotes: Refs,
    /// Each working tree, by what the repository calls its HEAD.
    pub trees: BTreeMap<String, Side>,
    /// The branches and tags at the start.
    pub start: Refs,
    /// What both sides moved: the session's side is kept below `refs/pinfold` from then on.
    pub held: BTreeSet<String>,
    /// What the session made and the host took over: the session may move and delete it.
    pub made: BTreeSet<String>,
    /// Whether the working trees are known.
    pub is_complete: bool,
}

/// A working tree as git sees it: where HEAD is, and the tree that the index holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Side {
    /// Where HEAD is.
    pub head: Head,
    /// None where the index holds a conflict.
    pub tree: Option<String>,
}

impl State {
    /// Returns the state at the start of a session, as far as the files of the private directory tell
    /// it.
    pub fn at(start: &Start) -> Self {
        let refs = start.refs();
        Self { start: refs.clone(), refs, remotes: start.remotes(), ..Self::default() }
    }
}
