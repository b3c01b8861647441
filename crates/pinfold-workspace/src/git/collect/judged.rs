//! All references that a session moved, judged together.
//!
//! Most sessions change nothing that tools run, and `git fetch` in one brings thousands of tags: a few programs of git judge
//! all of them. If something is found, or git fails, each half is judged by itself, up to a bound that a session cannot extend.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use pinfold_git::state::State;
use pinfold_host::Refusal;
use pinfold_host::launcher::HostProgram;

use super::Collect;

/// Sets of references that are judged at most after the first one.
const MOST: usize = 512;

/// How long git may judge together. It leaves time to move what was judged.
const LONGEST: Duration = Duration::from_secs(90);

/// Why commits wait for the user.
#[derive(Clone, Debug)]
pub(super) enum Finding {
    /// They bring this path.
    Brings(String),
    /// git did not judge them, for this reason.
    Unjudged(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Brings(path) => {
                write!(f, "it brings {path}, which tools run or trust by themselves")
            }
            Self::Unjudged(why) => {
                write!(f, "it may bring what tools run or trust by themselves ({why})")
            }
        }
    }
}

/// What was found, and how much more is looked for.
struct Judged<'o> {
    /// Objects with what was found in them.
    touched: BTreeMap<&'o String, Finding>,
    left: usize,
}

/// Returns what was found if git found a path, or failed.
pub(super) fn finding(judged: Result<Option<String>, Refusal>) -> Option<Finding> {
    match judged {
        Ok(path) => path.map(Finding::Brings),
        Err(why) => Some(Finding::Unjudged(why.to_string())),
    }
}

impl Collect<'_> {
    /// Returns git for a judgement, with its time.
    pub(super) fn judging_git(&self) -> HostProgram {
        self.git.within(LONGEST)
    }

    /// Returns this with another git.
    pub(super) fn with<'c>(&'c self, git: &'c HostProgram) -> Collect<'c> {
        Collect { git, out: self.out.clone(), recorded: self.recorded.clone(), ..*self }
    }

    /// Returns the references whose new commits change what tools run or trust, or may, each with what was found.
    pub(super) fn judge<'h>(
        &self,
        state: &State,
        moved: impl Iterator<Item = (&'h String, &'h String)> + Clone,
    ) -> BTreeMap<String, Finding> {
        let objects: BTreeSet<&String> = moved.clone().map(|(_, new)| new).collect();
        let objects: Vec<&String> = objects.into_iter().collect();
        let mut judged = Judged { touched: BTreeMap::new(), left: MOST };
        let git = self.judging_git();
        self.with(&git).judge_some(state, &objects, &mut judged);
        let found = |(name, new): (&String, &String)| {
            Some((name.clone(), judged.touched.get(new)?.clone()))
        };
        moved.filter_map(found).collect()
    }

    fn judge_some<'o>(&self, state: &State, objects: &[&'o String], judged: &mut Judged<'o>) {
        let (one, other) = match objects {
            [] => return,
            [object] => {
                let found = finding(self.touches_protected(state, object));
                judged.touched.extend(found.map(|found| (*object, found)));
                return;
            }
            _ => objects.split_at(objects.len() / 2),
        };
        let Some(found) = finding(self.first_of(state, objects)) else { return };
        match judged.left.checked_sub(1) {
            Some(left) => judged.left = left,
            None => {
                judged.touched.extend(objects.iter().map(|object| (*object, found.clone())));
                return;
            }
        }
        self.judge_some(state, one, judged);
        self.judge_some(state, other, judged);
    }

    /// Returns a protected path that one of these objects brings, or that one of them may bring.
    fn first_of(&self, state: &State, objects: &[&String]) -> Result<Option<String>, Refusal> {
        let asked: String = objects.iter().map(|object| format!("{object}^{{}}\n")).collect();
        let peel = ["cat-file", "--batch-check=%(objecttype) %(objectname)"];
        let peeled = self.host().run(&peel, Some(asked.as_bytes()))?;
        let peeled = || peeled.lines().filter_map(|line| line.split_once(' '));
        let trees = peeled().filter(|(kind, _)| *kind == "tree").map(|(_, name)| name);
        if let Some(path) = self.first_of_trees(state, trees)? {
            return Ok(Some(path));
        }
        let commits = peeled().filter(|(kind, _)| *kind == "commit").map(|(_, name)| name);
        self.first_unknown(state, commits)
    }
}
