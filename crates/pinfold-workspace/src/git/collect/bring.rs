//! What the host moved enters the session.
//!
//! The private directory may hold anything by now, so the host writes nothing there: a scratch
//! sandbox in which it can be written does, with the same comparison against the last common state.
//! The objects need not be brought, since the session borrows the host's.

use std::fs::File;
use std::io::{self, Read as _, Write as _};

use pinfold_git::index::Index;
use pinfold_git::state::{Side, State};
use pinfold_git::worktrees::Worktree;
use pinfold_host::Refusal;
use pinfold_policy::path::Escaped;

use super::super::import::ASKED;
use super::{Collect, Held};

impl Collect<'_> {
    /// Brings references, HEADs and staged changes of the host's in.
    pub(super) fn bring_in(
        &self,
        state: &mut State,
        within: &[Worktree],
        theirs: &Held,
    ) -> Result<(), Refusal> {
        // What was moved a moment ago is the host's by now.
        let ours = self.ours(within)?;
        let mut next = state.clone();
        let mut updates = references(&mut next, &ours, theirs);
        updates.push_str(&remotes(&mut next, &ours));
        let mut heads = String::new();
        for (number, worktree) in within.iter().enumerate() {
            let (our, their) = (&ours.trees[number], &theirs.trees[number]);
            let Some(last) = state.trees.get(&worktree.head) else { continue };
            let has_moved = our.head != last.head || our.tree != last.tree;
            if !has_moved || their != last || our.tree.is_none() {
                continue;
            }
            if our.tree != last.tree {
                self.copy_index(number, worktree)?;
            }
            heads.push_str(&line(number, worktree, last, our));
            next.trees.insert(worktree.head.clone(), our.clone());
        }
        if updates.is_empty() && heads.is_empty() {
            return Ok(());
        }
        self.write("bring-refs", &updates)?;
        self.write("bring-heads", &heads)?;
        self.helper("bring")?;
        *state = next;
        Ok(())
    }

    /// Puts the host's index where the scratch sandbox finds it. What is hidden from the session is
    /// marked in it, so that git there skips it.
    fn copy_index(&self, number: usize, worktree: &Worktree) -> Result<(), Refusal> {
        let path = worktree.git.path().join("index");
        let read = || {
            let mut file = File::open(&path)?;
            let (mut bytes, modified) = (Vec::new(), file.metadata()?.modified()?);
            file.read_to_end(&mut bytes).map(|_| (bytes, modified))
        };
        let read: io::Result<_> = read();
        let (bytes, modified) = read.map_err(Refusal::about(Escaped(&path)))?;
        let hidden = self.hidden.iter().filter_map(|path| path.strip_prefix(&worktree.top).ok());
        let marked = Index::of(worktree.git.path(), bytes.clone())
            .and_then(|index| index.without(hidden))
            .unwrap_or(bytes);
        let to = self.out.join(ASKED).join(format!("bring-index-{number}"));
        // By its time git knows which files may have changed since it looked at them.
        let written = File::create(to).and_then(|mut file| {
            file.write_all(&marked).and_then(|()| file.set_modified(modified))
        });
        written.map_err(Refusal::from)
    }
}

/// Commands for git-update-ref(1), each with what must be there.
fn references(next: &mut State, ours: &Held, theirs: &Held) -> String {
    let mut commands = String::new();
    for (name, our) in &ours.refs {
        let last = next.refs.get(name);
        if last == Some(our) || theirs.refs.get(name) != last || next.held.contains(name) {
            continue;
        }
        match last {
            Some(last) => commands.push_str(&format!("update {name} {our} {last}\n")),
            None => commands.push_str(&format!("create {name} {our}\n")),
        }
        next.refs.insert(name.clone(), our.clone());
        // It is the host's from now on.
        next.start.insert(name.clone(), our.clone());
    }
    commands
}

/// Returns the updates of remote-tracking branches, which are the host's alone.
fn remotes(next: &mut State, ours: &Held) -> String {
    let last = std::mem::replace(&mut next.remotes, ours.remotes.clone());
    let moved = ours.remotes.iter().filter(|(name, object)| last.get(*name) != Some(*object));
    let set = moved.map(|(name, object)| format!("update {name} {object}\n"));
    let gone = last.keys().filter(|name| !ours.remotes.contains_key(*name));
    set.chain(gone.map(|name| format!("delete {name}\n"))).collect()
}

/// Returns one working tree: number, name of HEAD, path of the index, HEAD before and after.
fn line(number: usize, worktree: &Worktree, last: &Side, our: &Side) -> String {
    let word = |side: &Side| {
        let head = side.head.branch.as_ref().or(side.head.commit.as_ref());
        head.cloned().unwrap_or_else(|| "-".to_owned())
    };
    let (head, index) = (&worktree.head, worktree.path_of("index"));
    format!("{number} {head} {index} {} {}\n", word(last), word(our))
}
