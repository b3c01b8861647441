//! References of the host that move as the session moved its own.

use std::collections::BTreeSet;

use pinfold_git::abbreviated::{digits, that_objects_have};
use pinfold_git::host_git::GitError;
use pinfold_git::refs::{Taken, shell_word, short_name};
use pinfold_git::settled::{Kept, Settled};
use pinfold_git::state::State;
use pinfold_host::Refusal;

use super::follow::Followed;
use super::{Collect, Held, Phase, Plan, moved, touched};

/// A reference that the session moved.
#[derive(Clone, Copy)]
struct Reference<'a> {
    name: &'a str,
    /// Whether the session made it, and may move and delete it.
    is_own: bool,
    /// The object that the host has.
    our: Option<&'a String>,
    /// The object that both had the last time.
    last: Option<&'a String>,
    /// The reference that keeps the session's object if it does not move.
    kept: &'a str,
}

/// What names of new references may not be.
#[derive(Clone, Copy)]
struct Names<'a> {
    taken: &'a Taken<'a>,
    /// Digits that names of objects begin with.
    of_objects: &'a BTreeSet<&'a str>,
}

/// A command of git-update-ref(1) for a reference.
struct Step {
    name: String,
    /// The object that it has in the session, or had.
    new: String,
    command: String,
    end: End,
}

/// What becomes of a reference of the session's.
enum End {
    Moved {
        is_made: bool,
    },
    /// It is kept under another name.
    Kept {
        why: String,
        is_executed: bool,
    },
    Deleted,
}

/// Steps that fail together, and are then divided. A session can make two names of which git takes only one.
const MOST_DIVIDED: usize = 512;

/// Steps that were not taken, and how often more are divided.
struct Untaken<'s> {
    failed: Vec<(&'s Step, GitError)>,
    left: usize,
}

impl Collect<'_> {
    /// Moves what the session moved, except what is checked out in its working trees.
    pub(super) fn move_refs(
        &self,
        state: &mut State,
        plan: &Plan<'_>,
        followed: &Followed,
        settled: &mut Settled,
    ) -> Result<(), Refusal> {
        // What the host moved is the host's from then on.
        let State { made, refs, .. } = &mut *state;
        made.retain(|name| plan.ours.refs.get(name) == refs.get(name));
        let taken = Taken::new(&plan.ours.refs);
        let mut steps = Vec::new();
        let new = plan.theirs.refs.keys().filter(|name| !plan.ours.refs.contains_key(*name));
        let of_objects = that_objects_have(self.host(), new.map(String::as_str))?;
        let has_time = |name: &String| {
            let stays = self.phase == Phase::Live && followed.stay.contains_key(name);
            stays || followed.branches.contains(name)
        };
        let moved: Vec<(String, String)> = moved(state, plan.theirs)
            .filter(|(name, _)| !has_time(name))
            .map(|(name, new)| (name.clone(), new.clone()))
            .collect();
        for (name, new) in moved {
            let (our, last) = (plan.ours.refs.get(&name), state.refs.get(&name));
            if our == Some(&new) {
                state.refs.insert(name, new);
                continue;
            }
            let kept = self.kept_as(&name);
            let is_own = state.made.contains(&name);
            let reference = Reference { name: &name, is_own, our, last, kept: &kept };
            let names = Names { taken: &taken, of_objects: &of_objects };
            let why = self.obstacle(plan, followed, names, reference);
            let command = match (&why, our) {
                (Some(_), _) => format!("update {kept} {new}\n"),
                (None, Some(old)) => format!("update {name} {new} {old}\n"),
                (None, None) => format!("create {name} {new}\n"),
            };
            let is_executed = plan.touched.contains_key(&name);
            let kept = |why| End::Kept { why, is_executed };
            let end = why.map_or(End::Moved { is_made: our.is_none() }, kept);
            steps.push(Step { name, new, command, end });
        }
        for (name, old) in deleted(state, plan) {
            let command = format!("delete {name} {old}\n");
            steps.push(Step { name, new: old, command, end: End::Deleted });
        }
        let mut untaken = Untaken { failed: Vec::new(), left: MOST_DIVIDED };
        self.take(state, &steps, settled, &mut untaken)?;
        let mut failed = untaken.failed;
        match failed.pop() {
            // What did not move is tried again.
            Some((_, why)) if self.phase == Phase::Live => return Err(why.into()),
            last => failed.extend(last),
        }
        // A deletion that failed is reported as one that is left to the user.
        let failed = failed.into_iter().filter(|(step, _)| !matches!(step.end, End::Deleted));
        for (Step { name, new, .. }, why) in failed {
            let kept = self.kept_as(name);
            self.update_refs(&format!("update {kept} {new}\n"))?;
            self.keep(settled, format!("{name} in {}, kept as {kept}", self.place()), why);
        }
        Ok(())
    }

    /// Takes steps. git does all at once or nothing, such as where another git has locked one of the references; then
    /// each half by itself.
    ///
    /// # Errors
    /// Returns an error of git that is about no reference, or about too many of them.
    fn take<'s>(
        &self,
        state: &mut State,
        steps: &'s [Step],
        settled: &mut Settled,
        untaken: &mut Untaken<'s>,
    ) -> Result<(), Refusal> {
        let commands: String = steps.iter().map(|step| step.command.as_str()).collect();
        match (self.update_refs(&commands), steps) {
            (Ok(()), _) => steps.iter().for_each(|step| self.note(state, step, settled)),
            (Err(why @ GitError::Failed(_)), [step]) => untaken.failed.push((step, why)),
            (Err(why @ GitError::Failed(_)), _) => {
                let Some(left) = untaken.left.checked_sub(1) else {
                    let what = "git refused references of the session too often (512 times)";
                    return Err(Refusal::new(what).because(why));
                };
                untaken.left = left;
                let (one, other) = steps.split_at(steps.len() / 2);
                self.take(state, one, settled, untaken)?;
                self.take(state, other, settled, untaken)?;
            }
            (Err(why), _) => return Err(why.into()),
        }
        Ok(())
    }

    fn update_refs(&self, commands: &str) -> Result<(), GitError> {
        if commands.is_empty() {
            return Ok(());
        }
        let words = ["update-ref", "-m", &self.reason(), "--stdin"];
        self.host().run(&words, Some(commands.as_bytes())).map(drop)
    }

    /// Notes that a step was taken: only now it is common to both sides.
    fn note(&self, state: &mut State, Step { name, new, end, .. }: &Step, settled: &mut Settled) {
        match end {
            End::Deleted => {
                state.refs.remove(name);
                state.made.remove(name);
                return;
            }
            End::Moved { is_made: true } => drop(state.made.insert(name.clone())),
            End::Moved { is_made: false } => {}
            End::Kept { why, is_executed } => {
                if state.held.insert(name.clone()) || self.phase == Phase::End {
                    let what =
                        format!("{name} in {}, kept as {}", self.place(), self.kept_as(name));
                    let kept = Kept::new(what, why);
                    settled.kept.push(Kept { is_executed: *is_executed, ..kept });
                }
            }
        }
        state.refs.insert(name.clone(), new.clone());
    }

    fn kept_as(&self, name: &str) -> String {
        format!("refs/pinfold/{}/{}", self.session, &name["refs/".len()..])
    }

    /// Returns why a new branch or tag is not made: its short name already means something else.
    pub(super) fn is_ambiguous(
        &self,
        ours: &Held,
        name: &str,
        of_objects: &BTreeSet<&str>,
    ) -> Option<String> {
        let short = short_name(name)?;
        if let Some(kind) = ours.other_of_name(name, short) {
            return Some(format!("the host has a {kind} of this name"));
        }
        // A reference comes before an object whose name begins like this, or ends what git-describe(1) shows.
        of_objects.get(digits(short)?)?;
        Some("the host has an object of this name".to_owned())
    }

    /// Returns why a reference does not move, if so.
    fn obstacle(
        &self,
        plan: &Plan<'_>,
        followed: &Followed,
        Names { taken, of_objects }: Names<'_>,
        Reference { name, is_own, our, last, kept }: Reference<'_>,
    ) -> Option<String> {
        let found = plan.touched.get(name).map(|found| match name.strip_prefix("refs/tags/") {
            Some(tag) => {
                let (tag, kept) = (shell_word(tag), shell_word(kept));
                touched::reason_with(found, &format!("git tag {tag} {kept}"))
            }
            None => touched::reason(found, self.session),
        });
        match (self.refuses(Some(name)), found) {
            (Some(why), Some(found)) => return Some(format!("{why}; {found}")),
            (Some(why), None) | (None, Some(why)) => return Some(why),
            (None, None) => {}
        }
        if let Some(worktree) = plan.held.get(name) {
            let top = shell_word(&worktree.top.to_string_lossy());
            let kept = shell_word(kept);
            return Some(match our {
                Some(_) => format!(
                    "it is checked out in another worktree; take it with \
                     `git -C {top} merge --ff-only {kept}`"
                ),
                None => "it is checked out in another worktree".to_owned(),
            });
        }
        if name.starts_with("refs/tags/") && our.is_some() && !is_own {
            return Some("the host has a tag of this name".to_owned());
        }
        if our.is_none() && taken.is_in_the_way_of(name) {
            return Some("a reference of the host has the same beginning".to_owned());
        }
        if our.is_none()
            && let Some(why) = self.is_ambiguous(plan.ours, name, of_objects)
        {
            return Some(why);
        }
        if our != last || !plan.forward.contains(name) {
            return Some("it is not a fast-forward of the host's branch".to_owned());
        }
        let why = followed.stay.get(name)?;
        let command = format!("pinfold accept {}", shell_word(self.session));
        Some(format!("{why}; `{command}` takes it"))
    }
}

/// Returns what the session made and deleted again, with the object that the host has. What the host has
/// checked out stays.
fn deleted(state: &State, plan: &Plan<'_>) -> Vec<(String, String)> {
    let is_checked_out = |name: &String| {
        let heads = plan.ours.trees.iter().map(|side| &side.head.branch);
        plan.held.contains_key(name) || heads.flatten().any(|branch| branch == name)
    };
    let gone = state
        .made
        .iter()
        .filter(|name| !plan.theirs.refs.contains_key(*name))
        .filter(|name| !is_checked_out(name));
    gone.filter_map(|name| Some((name.clone(), plan.ours.refs.get(name)?.clone()))).collect()
}
