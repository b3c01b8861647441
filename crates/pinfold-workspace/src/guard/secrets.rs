//! Files that are secret by name: hidden, unless git has their very content.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use pinfold_names::Class;
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_protect::restrict::linked_inode;
use pinfold_protect::survey::names_of_inodes;
use pinfold_protect::tracked::Tracked;
use pinfold_protect::trusted::with_several_names;

use super::state::Guard;
use super::{Git, Granted};

impl Guard {
    /// Hides the files that are secret by name, except those of which git has this very content.
    pub(super) fn hide_secrets(&mut self, git: &Git, roots: &[PathBuf]) {
        let files = git.secrets.iter().map(|(path, _)| path).chain(&git.executed);
        let hidden = self.protect.hidden();
        let is_seen = |git: &Path| !git.ancestors().any(|above| hidden.contains(above));
        self.tracked = Tracked::look_up(files, roots, is_seen);
        let is_executed = |(path, class): &&(PathBuf, Class)| {
            class.executed().is_some() && self.protect.writable_root(path).is_some()
        };
        let executed = git.secrets.iter().filter(is_executed).map(|(path, _)| path);
        // In a view git can remove them.
        let in_view =
            |path: &PathBuf| self.over.as_ref().is_some_and(|over| path.starts_with(over));
        let has = |path: &&PathBuf| self.tracked.same.contains(*path) && !in_view(path);
        self.read_only = git.executed.iter().chain(executed).filter(has).cloned().collect();
        for path in &git.executed {
            self.tracked.forget(path);
        }
        for (path, class) in &git.secrets {
            // What is no secret may still be something that the host executes.
            let is_shown = self.tracked.same.contains(path);
            let class = if is_shown { class.executed() } else { Some(*class) };
            let writable = self.protect.writable_root(path).is_some();
            if let Some(class) = class.filter(|_| writable || !is_shown) {
                self.protect.restrict_targets(path, class.effect(), &class.reason());
                self.protect.restrict(path.clone(), class.effect(), class.reason());
            }
        }
    }

    /// Restricts the other names of files that are restricted: a hard link shows and changes what its file holds. In a view
    /// the names come apart.
    pub(super) fn heed_links(&mut self, granted: &[Granted], cache: &Path) {
        let trusted = with_several_names(&self.trusted).into_iter();
        let restricted = self.protect.restrictions().filter_map(|(path, effect, _)| {
            let is_meant = matches!(effect, Effect::Hide | Effect::ReadOnly);
            Some((linked_inode(path).filter(|_| is_meant)?, effect))
        });
        let mut linked: HashMap<(u64, u64), Effect> =
            trusted.map(|id| (id, Effect::ReadOnly)).collect();
        // Hiding wins.
        for (id, effect) in restricted {
            let known = linked.entry(id).or_insert(effect);
            *known = (*known).max(effect);
        }
        if linked.is_empty() {
            return;
        }
        let inodes: HashSet<u64> = linked.keys().map(|(_, inode)| *inode).collect();
        let roots = granted.iter().map(|root| root.path.as_path());
        let found = roots.flat_map(|root| names_of_inodes(root, cache, &inodes));
        let known: HashSet<PathBuf> =
            self.protect.restrictions().map(|(path, ..)| path.to_owned()).collect();
        let hidden = self.protect.hidden();
        for path in found {
            let effect = linked_inode(&path).and_then(|id| linked.get(&id).copied());
            let in_view = self.over.as_ref().is_some_and(|over| path.starts_with(over));
            let (why, text) = match effect {
                Some(Effect::Hide) if !hidden.contains(&path) => {
                    (Why::Secret, "it is another name of a hidden file")
                }
                Some(Effect::ReadOnly)
                    if !known.contains(&path)
                        && !in_view
                        && self.protect.writable_root(&path).is_some() =>
                {
                    (Why::HostExecutes, "it is another name of a file that may not be changed")
                }
                _ => continue,
            };
            let reason = Reason { why, text: text.into(), opt_in: None };
            self.protect.restrict(path, effect.unwrap_or(Effect::Hide), reason);
        }
    }
}
