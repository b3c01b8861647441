//! All references that a session moved, judged together.
//!
//! Most sessions change nothing that tools run, and `git fetch` in one brings thousands of tags: a few programs of git judge
//! all of them. If something is found, each half is judged by itself, up to a bound that a session cannot extend.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_git::state::State;
use pinfold_host::Refusal;

use super::Collect;

/// Sets of references that are judged at most after the first one.
const MOST: usize = 512;

/// What was found, and how much more is looked for.
struct Judged<'o> {
    /// Objects with a protected path that they bring.
    touched: BTreeMap<&'o String, String>,
    left: usize,
}

impl Collect<'_> {
    /// Returns the references whose new commits change what tools run or trust, each with a path.
    pub(super) fn judge<'h>(
        &self,
        state: &State,
        moved: impl Iterator<Item = (&'h String, &'h String)> + Clone,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        let objects: BTreeSet<&String> = moved.clone().map(|(_, new)| new).collect();
        let objects: Vec<&String> = objects.into_iter().collect();
        let mut judged = Judged { touched: BTreeMap::new(), left: MOST };
        self.judge_some(state, &objects, &mut judged)?;
        let path = |(name, new): (&String, &String)| {
            Some((name.clone(), judged.touched.get(new)?.clone()))
        };
        Ok(moved.filter_map(path).collect())
    }

    fn judge_some<'o>(
        &self,
        state: &State,
        objects: &[&'o String],
        judged: &mut Judged<'o>,
    ) -> Result<(), Refusal> {
        let (one, other) = match objects {
            [] => return Ok(()),
            [object] => {
                let path = self.touches_protected(state, object)?;
                judged.touched.extend(path.map(|path| (*object, path)));
                return Ok(());
            }
            _ => objects.split_at(objects.len() / 2),
        };
        let Some(path) = self.first_of(state, objects)? else { return Ok(()) };
        match judged.left.checked_sub(1) {
            Some(left) => judged.left = left,
            None => {
                judged.touched.extend(objects.iter().map(|object| (*object, path.clone())));
                return Ok(());
            }
        }
        self.judge_some(state, one, judged)?;
        self.judge_some(state, other, judged)
    }

    /// Returns a protected path that one of these objects brings, or that one of them may bring.
    fn first_of(&self, state: &State, objects: &[&String]) -> Result<Option<String>, Refusal> {
        let asked: String = objects.iter().map(|object| format!("{object}^{{}}\n")).collect();
        let peel = ["cat-file", "--batch-check=%(objecttype) %(objectname)"];
        let peeled = self.host().run(&peel, Some(asked.as_bytes()))?;
        let peeled = || peeled.lines().filter_map(|line| line.split_once(' '));
        for (_, tree) in peeled().filter(|(kind, _)| *kind == "tree") {
            if let Some(path) = self.stages_protected(state, None, tree)? {
                return Ok(Some(path));
            }
        }
        let commits = peeled().filter(|(kind, _)| *kind == "commit").map(|(_, name)| name);
        self.first_unknown(state, commits)
    }
}
