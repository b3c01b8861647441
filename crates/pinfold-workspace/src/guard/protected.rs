//! Which protected directories get a private copy that the sandbox can write.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_git::index::Index;
use pinfold_policy::authority::Reason;
use pinfold_policy::path::Escaped;
use pinfold_protect::restrict::Substitute;
use pinfold_terminal::notify;

use super::state::Guard;
use crate::GuardError;
use crate::protected_dirs::{Budget, DIRECTORY, ProtectedDir};

impl Guard {
    /// Copies the protected directories. One that cannot be copied stays read-only, and so does one that
    /// holds anything of which more than its name is known.
    ///
    /// # Errors
    /// Returns the error of making the directory of the copies.
    pub(super) fn copy_protected(&mut self) -> Result<(), GuardError> {
        let candidates = std::mem::take(&mut self.candidates);
        // In a view nothing needs to be read-only.
        if self.over.is_some() {
            return Ok(());
        }
        let hidden = self.protect.hidden();
        let mut budget = Budget::default();
        let mut last: Option<PathBuf> = None;
        for (path, reason) in candidates {
            // What lies in another one is copied with it.
            if last.as_ref().is_some_and(|above| path.starts_with(above)) {
                continue;
            }
            if self.is_copied(&path, &hidden) {
                last = Some(path.clone());
                self.copy_one(&path, reason, &hidden, &mut budget)?;
            }
        }
        Ok(())
    }

    fn copy_one(
        &mut self,
        path: &Path,
        reason: Reason,
        hidden: &HashSet<PathBuf>,
        budget: &mut Budget,
    ) -> Result<(), GuardError> {
        let (number, directory) = (self.protected_dirs.len(), self.private.join(DIRECTORY));
        if number == 0 {
            fs::DirBuilder::new().mode(0o700).create(&directory).map_err(GuardError::System)?;
        }
        match ProtectedDir::copy(path, &directory, number, &reason, hidden, budget) {
            Ok(copied) => {
                self.protected_dirs.push(copied);
                let substitute = Substitute(ProtectedDir::inside(number));
                self.protect.forget(path);
                self.protect.substitute(path.to_owned(), substitute, reason);
            }
            Err(why) => {
                let _ = fs::remove_dir_all(directory.join(number.to_string()));
                // What git does not track it does not write either.
                if self.is_tracked(path) {
                    notify!("pinfold: note: {} is read-only: {why}", Escaped(path));
                }
            }
        }
        Ok(())
    }

    fn is_copied(&self, path: &Path, hidden: &HashSet<PathBuf>) -> bool {
        let found = fs::symlink_metadata(path);
        let is_there = found.as_ref().is_ok_and(fs::Metadata::is_dir);
        let is_missing = found.is_err() && self.protect.is_placed(path);
        let is_within = |other: &Path| other.starts_with(path);
        let is_hidden = path.ancestors().any(|above| hidden.contains(above));
        let has_git = self.tops.iter().any(|(top, git)| is_within(top) || is_within(git));
        let has_copy = self.copies.directories.iter().any(|copied| is_within(copied.host.path()));
        let has_root = self.readable.iter().any(|root| is_within(root));
        let has_shadow = self.shadows.iter().any(|shadow| is_within(shadow.host()));
        (is_there || is_missing && self.has_other_commits(path))
            && !is_hidden
            && !has_git
            && !has_copy
            && !has_root
            && !has_shadow
            && !self.generated.lies_in(path)
            && self.protect.is_only_protected(path)
    }

    /// Returns the innermost working tree around a path, and its git directory.
    fn around(&self, path: &Path) -> Option<&(PathBuf, PathBuf)> {
        let around = self.tops.iter().filter(|(top, _)| path.starts_with(top));
        around.max_by_key(|(top, _)| top.as_os_str().len())
    }

    /// Returns whether git may have something of a directory in its index.
    fn is_tracked(&self, directory: &Path) -> bool {
        let Some((top, git)) = self.around(directory) else { return false };
        let relative = directory.strip_prefix(top).unwrap_or(directory);
        Index::open(git).and_then(|index| index.holds(relative)) != Some(false)
    }

    /// Returns whether the repository around a path has other commits than HEAD's to check out. Without
    /// them git needs nothing that is not there.
    fn has_other_commits(&self, path: &Path) -> bool {
        let Some((_, git)) = self.around(path) else { return false };
        let of_git = self.copies.directories.iter().filter(|it| git.starts_with(it.host.path()));
        let copied = of_git.max_by_key(|it| it.host.path().as_os_str().len());
        copied.is_some_and(|copied| copied.start.has_other_commits())
    }
}
