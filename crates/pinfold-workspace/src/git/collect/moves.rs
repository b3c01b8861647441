//! References of the host that move as the session moved its own.

use pinfold_git::refs::{Taken, shell_word};
use pinfold_git::settled::Settled;
use pinfold_git::state::State;
use pinfold_host::Refusal;

use super::follow::Followed;
use super::{Collect, Phase, Plan, moved, touched};

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
        let mut commands = String::new();
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
            let kept = format!("refs/pinfold/{}/{}", self.session, &name["refs/".len()..]);
            let is_own = state.made.contains(&name);
            let reference = Reference { name: &name, is_own, our, last, kept: &kept };
            let why = match self.obstacle(plan, followed, &taken, reference) {
                Some(why) => why,
                None => {
                    match our {
                        Some(old) => commands.push_str(&format!("update {name} {new} {old}\n")),
                        None => {
                            commands.push_str(&format!("create {name} {new}\n"));
                            state.made.insert(name.clone());
                        }
                    }
                    state.refs.insert(name, new);
                    continue;
                }
            };
            commands.push_str(&format!("update {kept} {new}\n"));
            state.refs.insert(name.clone(), new);
            if state.held.insert(name.clone()) || self.phase == Phase::End {
                self.keep(settled, format!("{name} in {}, kept as {kept}", self.place()), why);
            }
        }
        for (name, old) in deleted(state, plan) {
            commands.push_str(&format!("delete {name} {old}\n"));
            state.refs.remove(&name);
            state.made.remove(&name);
        }
        if commands.is_empty() {
            return Ok(());
        }
        self.host()
            .run(&["update-ref", "-m", &self.reason(), "--stdin"], Some(commands.as_bytes()))?;
        Ok(())
    }

    /// Returns why a reference does not move, if so.
    fn obstacle(
        &self,
        plan: &Plan<'_>,
        followed: &Followed,
        taken: &Taken<'_>,
        Reference { name, is_own, our, last, kept }: Reference<'_>,
    ) -> Option<String> {
        if let Some(why) = self.refuses(Some(name)) {
            return Some(why);
        }
        if let Some(path) = plan.touched.get(name) {
            return Some(match name.strip_prefix("refs/tags/") {
                Some(tag) => {
                    let (tag, kept) = (shell_word(tag), shell_word(kept));
                    touched::reason_with(path, &format!("git tag {tag} {kept}"))
                }
                None => touched::reason(path, self.session),
            });
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
        if our != last || !plan.forward.iter().any(|forward| forward == name) {
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
