//! Stashes, and what the sandbox deleted or made that is reported to the user.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pinfold_git::refs::{Stash, shell_word};
use pinfold_git::settled::{Kept, Settled};
use pinfold_git::state::State;
use pinfold_git::worktrees;
use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;

use super::super::import::CHECKED;
use super::judged::{Finding, finding};
use super::{Collect, Held, touched};

/// More new stashes than these are not put on the host's list, but below `refs/pinfold/`.
const MOST_STASHES: usize = 100;

impl Collect<'_> {
    /// Puts new stashes on the host's list, as git-stash(1) "store" does.
    pub(super) fn store_stashes(
        &self,
        state: &State,
        ours: &Held,
        theirs: &Held,
        settled: &mut Settled,
    ) -> Result<(), Refusal> {
        let proper = self.read(CHECKED, "stashes")?;
        let is_new = |stash: &&Stash| !ours.stashes.iter().any(|our| our.commit == stash.commit);
        let is_proper = |stash: &Stash| proper.lines().any(|commit| commit == stash.commit);
        let has_name = |commit: &String| ours.refs.values().any(|object| object == commit);
        let is_of_use = |stash: &&Stash| is_proper(stash) || !has_name(&stash.commit);
        let below = format!("refs/pinfold/{}/stash", self.session);
        let command =
            |commit: &str| format!("git stash apply {}", shell_word(&format!("{below}/{commit}")));
        let over = self.refuses(Some("refs/stash"));
        let all: Vec<&Stash> = theirs.stashes.iter().filter(is_new).filter(is_of_use).collect();
        let unlisted = all.iter().filter(|stash| over.is_some() || !is_proper(stash));
        let touched = self.judge(state, unlisted.map(|stash| (&stash.commit, &stash.commit)));
        let git = self.judging_git();
        let judging = self.with(&git);
        let mut kept = String::new();
        let mut new: Vec<&Stash> = Vec::new();
        for stash in all {
            let commit = &stash.commit;
            // What the list does not take is nowhere that `git stash pop` finds it.
            let why = match over.clone() {
                None if !is_proper(stash) => Some("`git stash` did not make it".to_owned()),
                None if new.len() < MOST_STASHES => finding(judging.stash_touches(state, commit))
                    .map(|found| touched::reason_with(found, &command(commit))),
                why => why,
            };
            let Some(why) = why else {
                new.push(stash);
                continue;
            };
            kept.push_str(&format!("update {below}/{commit} {commit}\n"));
            let what = format!("a stash in {}, kept as {below}/{commit}", self.place());
            self.keep_judged(settled, what, why, touched.get(commit));
        }
        let (new, old) = new.split_at(new.len().min(MOST_STASHES));
        for Stash { commit, message } in new.iter().rev() {
            let words = ["update-ref", "--create-reflog", "-m", message, "refs/stash", commit];
            self.host().run(&words, None)?;
        }
        for Stash { commit, .. } in old {
            kept.push_str(&format!("update {below}/{commit} {commit}\n"));
        }
        if !kept.is_empty() {
            self.host().run(&["update-ref", "--stdin"], Some(kept.as_bytes()))?;
        }
        if !old.is_empty() {
            let what = format!("{} stashes in {}, kept below {below}", old.len(), self.place());
            self.keep(settled, what, format!("the list takes the newest {MOST_STASHES}"));
        }
        self.note_dropped(new.len(), ours, theirs, settled);
        Ok(())
    }

    /// Stashes that the sandbox dropped or popped. `new` ones came before them.
    fn note_dropped(&self, new: usize, ours: &Held, theirs: &Held, settled: &mut Settled) {
        let is_gone = |stash: &Stash| {
            self.copied.start.had_stash(&stash.commit)
                && !theirs.stashes.iter().any(|their| their.commit == stash.commit)
        };
        let gone = ours.stashes.iter().enumerate().filter(|(_, stash)| is_gone(stash));
        let names: Vec<String> =
            gone.map(|(number, _)| format!("stash@{{{}}}", number + new)).collect();
        if names.is_empty() {
            return;
        }
        // The highest first, or the numbers of the others would change.
        let top = self.shell_place();
        let drop = |name: &String| format!("git -C {top} stash drop {}", shell_word(name));
        let commands: Vec<String> = names.iter().rev().map(drop).collect();
        let what = format!("dropping of {} in {}", names.join(", "), self.place());
        self.keep(settled, what, format!("`{}` does it here too", commands.join(" && ")));
    }

    /// Keeps notes and other references, and branches and tags under names that the host gets none under.
    pub(super) fn keep_unused(
        &self,
        state: &State,
        ours: &Held,
        theirs: &mut Held,
        settled: &mut Settled,
    ) -> Result<(), Refusal> {
        let below = format!("refs/pinfold/{}/unused", self.session);
        // The host may have moved its own.
        let start = &self.copied.start;
        let named = start.named();
        let was_head = |name: &str, object: &String| {
            start.head(name).is_some_and(|head| head.commit.as_ref() == Some(object))
        };
        let was_there =
            |(object, name): &&(String, String)| named.has(name, object) || was_head(name, object);
        let new = theirs.unused.difference(&ours.unused).filter(|it| !was_there(it));
        let unused: Vec<_> = new.collect();
        let most = self.limits().unused;
        let first = unused.iter().take(most).map(|(object, name)| (name, object));
        let touched = self.judge(state, first);
        // Several may name one object.
        let mut commands = BTreeSet::new();
        for (object, name) in unused.iter().take(most) {
            commands.insert(format!("update {below}/{object} {object}\n"));
            let why = if name.starts_with("refs/heads/") || name.starts_with("refs/tags/") {
                "no reference gets such a name on the host"
            } else if name == "HEAD" || name.starts_with("worktrees/") {
                "no branch leads to it"
            } else {
                "only branches and tags come out under their own names"
            };
            let shown = Escaped(Path::new(name));
            let what = format!("{shown} in {}, kept as {below}/{object}", self.place());
            self.keep_judged(settled, what, why.to_owned(), touched.get(name));
        }
        // The others stay in the copy.
        let more: Vec<String> = unused.iter().skip(most).map(|(_, name)| name.clone()).collect();
        let why = format!("at most {most} such references come out by themselves");
        theirs.lost.extend(more.into_iter().map(|name| (name, why.clone())));
        if !commands.is_empty() {
            let commands: String = commands.into_iter().collect();
            self.host().run(&["update-ref", "--stdin"], Some(commands.as_bytes()))?;
        }
        Ok(())
    }

    /// Notes what is kept for a reason, and what was found in it.
    fn keep_judged(
        &self,
        settled: &mut Settled,
        what: String,
        why: String,
        found: Option<&Finding>,
    ) {
        let both = found.map(|found| format!("{why}, and {found}"));
        let kept = Kept::new(what, both.unwrap_or(why));
        settled.kept.push(Kept { is_executed: found.is_some(), ..kept });
    }

    /// Branches and tags that the session deleted.
    pub(super) fn note_deleted(
        &self,
        state: &State,
        ours: &Held,
        theirs: &Held,
        settled: &mut Settled,
    ) {
        let missing = ours.refs.keys().filter(|name| !theirs.refs.contains_key(*name));
        let gone: Vec<&String> = missing.filter(|name| state.refs.contains_key(*name)).collect();
        let kinds = [("branch", "refs/heads/", "branch -D"), ("tag", "refs/tags/", "tag -d")];
        for (kind, prefix, command) in kinds {
            let names: Vec<&str> =
                gone.iter().filter_map(|name| name.strip_prefix(prefix)).collect();
            let top = self.shell_place();
            if names.is_empty() {
                continue;
            }
            let words: String = names.iter().map(|name| format!(" {}", shell_word(name))).collect();
            let what = format!("deletion of {kind} {} in {}", names.join(", "), self.place());
            let why = format!("`git -C {top} {command}{words}` does it here too");
            self.keep(settled, what, why);
        }
    }

    /// Reports linked worktrees that the sandbox made. What is checked out in them lies where it was made.
    pub(super) fn note_worktrees(&self, settled: &mut Settled) {
        for id in worktrees::made(&self.copied.private, self.copied.host.path()) {
            let what = format!("worktree {id} of {}", self.place());
            let why = "its commits came out; `git worktree add` makes it here".to_owned();
            self.keep(settled, what, why);
        }
    }

    /// Returns where a user runs git for this repository, as a word for a shell.
    fn shell_place(&self) -> String {
        let host = self.copied.host.path();
        let linked = host.join("worktrees");
        let is_of_this = |git: &Path| git == host || git.parent() == Some(&linked);
        let own = self.tops.iter().find(|(_, git)| is_of_this(git)).map(|(top, _)| top);
        shell_word(&own.map_or(host, PathBuf::as_path).to_string_lossy())
    }
}
