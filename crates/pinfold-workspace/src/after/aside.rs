//! Setting aside what a session made.

use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::settled::Kept;
use pinfold_host::beneath::open_directory;
use pinfold_names::COMMANDS;
use pinfold_names::misleading::{DEVICES, SPARSE_FILES};
use pinfold_policy::path::Escaped;
use pinfold_protect::misleading::Misleading;
use pinfold_protect::set_aside;

use super::After;
use crate::protected_dirs::keep_committed;

type Text = std::borrow::Cow<'static, str>;

/// New things that are named one by one at most; the rest is counted.
const MOST_NAMED: usize = 64;
/// The same for what misleads: an unpacked archive can hold thousands of such links.
const MOST_MISLEADING: usize = 16;

impl After<'_> {
    pub(super) fn set_named_aside(&mut self) {
        let mut rest = 0;
        for (path, reason) in std::mem::take(&mut self.named) {
            if self.is_over() {
                return;
            }
            // What lies in something protected came with it.
            let mut above = path.ancestors().skip(1);
            // No clone brings a FIFO, and `PATH` has no directory of a clone that was not there.
            let is_fifo = std::fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_fifo());
            let is_command = reason.opt_in.as_deref() == Some(COMMANDS);
            let is_of_clone = !is_fifo && !is_command;
            let in_new_tree =
                is_of_clone && above.clone().any(|above| self.new_trees.contains(above));
            let below =
                above.any(|above| self.guard.known.contains_key(above) && self.is_known(above));
            if in_new_tree
                || below
                || self.is_gone(&path)
                || std::fs::symlink_metadata(&path).is_err()
            {
                continue;
            }
            for path in self.without_committed(path) {
                let is_named = self.settled.kept.len() < MOST_NAMED;
                let (why, opt_in) = (reason.text.clone(), reason.opt_in.clone());
                rest += self.set_aside_briefly(&path, why, opt_in, is_named);
            }
        }
        self.say_how_many(rest);
    }

    /// Sets misleading files aside, except what git on the host had there at the start.
    pub(super) fn set_misleading_aside(&mut self) {
        let mut rest = 0;
        for (number, found) in std::mem::take(&mut self.misleading).into_iter().enumerate() {
            if self.is_over() {
                return;
            }
            let Misleading { path, why, opt_in } = found;
            if self.is_gone(&path) || std::fs::symlink_metadata(&path).is_err() {
                continue;
            }
            // Git is asked for each.
            let is_asked = number < MOST_NAMED && ![DEVICES, SPARSE_FILES].contains(&opt_in);
            let left = if is_asked { self.without_committed(path) } else { [path].into() };
            for path in left {
                let is_named = number < MOST_MISLEADING;
                let (why, opt_in) = (why.clone().into(), Some(opt_in.into()));
                rest += self.set_aside_briefly(&path, why, opt_in, is_named);
            }
        }
        self.say_how_many(rest);
    }

    /// Returns one if it is not named by itself, because so many others are.
    fn set_aside_briefly(
        &mut self,
        path: &Path,
        why: Text,
        opt_in: Option<Text>,
        is_named: bool,
    ) -> usize {
        let before = self.settled.kept.len();
        self.set_aside_for(path, why, opt_in);
        if is_named {
            return 0;
        }
        self.settled.kept.truncate(before);
        1
    }

    fn say_how_many(&mut self, rest: usize) {
        if rest > 0 {
            let what = format!("{rest} more files");
            self.settled.kept.push(Kept::new(what, "they were set aside like the others"));
        }
    }

    /// Returns what is to be set aside of a new protected file or directory: what git on the host did
    /// not have there at the start.
    fn without_committed(&self, path: PathBuf) -> BTreeSet<PathBuf> {
        let kept = self.root_of(&path).and_then(|root| keep_committed(&self.settling, root, &path));
        kept.unwrap_or_else(|| [path].into())
    }

    /// Returns the innermost writable root that a path lies in.
    pub(super) fn root_of(&self, path: &Path) -> Option<&Path> {
        let roots = self.guard.roots.iter().filter(|root| path.starts_with(&root.path));
        roots.map(|root| root.path.as_path()).max_by_key(|root| root.as_os_str().len())
    }

    pub(super) fn set_aside(&mut self, path: &Path, why: &'static str) {
        self.set_aside_for(path, why.into(), None);
    }

    pub(super) fn set_aside_for(&mut self, path: &Path, why: Text, opt_in: Option<Text>) {
        let taken = self.root_of(path).and_then(|root| {
            let relative = path.strip_prefix(root).ok()?;
            let opened = open_directory(root).map_err(Into::into);
            Some(opened.and_then(|root| self.aside.take_beneath(&root, relative, path)))
        });
        let shown = Escaped(path);
        let kept = match taken {
            Some(Ok(())) => {
                self.gone.insert(path.to_owned());
                set_aside::kept(path, why)
            }
            Some(Err(error)) => {
                Kept::new(format!("{shown} (still there: {error}; remove it)"), why)
            }
            None => Kept::new(format!("{shown} (still there; remove it)"), why),
        };
        self.settled.kept.push(Kept { opt_in, ..kept });
    }
}
