//! Hidden files that the host renames while a session works in a view.
//!
//! A mask lies on a name of the view. A file that the host renames has another name there, without a
//! mask, and a directory takes its masks to its new name and leaves the old one without. In a live
//! directory masks move with what they lie on.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::{Ender, Mask};
use pinfold_policy::path::Escaped;
use pinfold_wire::{Channel, LaunchOrder};
use rustix::fs::inotify::ReadFlags;

use crate::masks::Kept;

/// Renames of which one side is known, and renames that are listed.
const MOST: usize = 64;

/// Masks that are followed to further names at most.
const MOST_MASKS: usize = 4096;

/// Masks in a message, which is far longer than so many paths.
const MOST_AT_ONCE: usize = 8;

/// What is hidden in a view.
pub struct Hidden {
    workspace: PathBuf,
    /// First those of the session's start.
    masks: Vec<Mask>,
    /// How many these are.
    own: usize,
    /// Leads to the helper that keeps masks, where there is one.
    keeper: Option<Arc<Channel>>,
    /// Ends the session, if masks cannot follow to other names.
    ender: Option<Ender>,
    /// First sides of renames, by the number that the kernel gives both (inotify(7)).
    begun: VecDeque<(u32, PathBuf)>,
    /// Whether something may lie at a hidden path that has no mask.
    is_replaced: bool,
    /// Old and new paths of what is not masked again yet.
    moved: Vec<(PathBuf, PathBuf)>,
    renamed: BTreeSet<(PathBuf, PathBuf)>,
}

impl Hidden {
    /// Follows the masks of a view over this workspace.
    ///
    /// # Errors
    /// Returns the error of duplicating a descriptor.
    pub fn new(workspace: &Path, masks: Vec<Mask>, kept: Option<&Kept>) -> io::Result<Self> {
        let ender = kept.map(Kept::ender).transpose()?.flatten();
        let keeper = kept.map(Kept::channel);
        let (begun, moved, renamed) = (VecDeque::new(), Vec::new(), BTreeSet::new());
        let (workspace, own, is_replaced) = (workspace.to_owned(), masks.len(), false);
        Ok(Self { workspace, masks, own, keeper, ender, begun, is_replaced, moved, renamed })
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Notes what has happened to a path in the workspace.
    pub(super) fn note(&mut self, what: ReadFlags, cookie: u32, path: &Path) {
        if what.contains(ReadFlags::MOVED_FROM) {
            let path = self.workspace.join(path);
            if self.masks.iter().any(|mask| path_of(mask).starts_with(&path)) {
                self.begun.truncate(MOST - 1);
                self.begun.push_front((cookie, path));
            }
        } else if what.intersects(ReadFlags::MOVED_TO | ReadFlags::CREATE) {
            let path = self.workspace.join(path);
            self.is_replaced |= self.masks.iter().any(|mask| path_of(mask).starts_with(&path));
            let begun = self.begun.iter().find(|(begun, _)| *begun == cookie);
            self.moved.extend(begun.map(|(_, old)| (old.clone(), path)));
        }
    }

    /// Returns whether something hidden, or a directory above it, was renamed or made.
    pub(super) fn has_moved(&self) -> bool {
        self.is_replaced || !self.moved.is_empty()
    }

    /// Has what was renamed masked at its new place, and what is new at the old one.
    pub(super) fn mask_moved(&mut self) {
        if std::mem::take(&mut self.is_replaced) {
            // The helper looks at those that it has itself with each message.
            let followed = self.masks[self.own..].chunks(MOST_AT_ONCE);
            std::iter::once(&[][..]).chain(followed).for_each(|masks| self.send(masks));
        }
        if let Some(ender) = self.ender.as_ref().filter(|_| !self.moved.is_empty()) {
            ender.end();
        }
        for (old, new) in std::mem::take(&mut self.moved) {
            let masks = self.moved_masks(&old, &new);
            masks.chunks(MOST_AT_ONCE).for_each(|masks| self.send(masks));
            let is_new = |mask: &Mask| !self.masks.contains(mask);
            let masks: Vec<Mask> = masks.into_iter().filter(is_new).collect();
            if self.masks.len() < MOST_MASKS {
                self.masks.extend(masks);
            }
            if self.renamed.len() < MOST {
                self.renamed.insert((old, new));
            }
        }
    }

    fn send(&self, masks: &[Mask]) {
        let order = LaunchOrder::Mask(masks.to_vec());
        // If the helper has ended, so does the session.
        let _ = self.keeper.as_ref().map(|keeper| keeper.send(&order, &[]));
    }

    fn moved_masks(&self, old: &Path, new: &Path) -> Vec<Mask> {
        let moved = |mask: &Mask| {
            let rest = path_of(mask).strip_prefix(old).ok()?;
            let is_itself = rest.as_os_str().is_empty();
            let path = if is_itself { new.to_owned() } else { new.join(rest) };
            let path = path.into_os_string().into_encoded_bytes();
            Some(Mask { path, kind: mask.kind.clone() })
        };
        self.masks.iter().filter_map(moved).collect()
    }

    /// Returns what the user should know, one line for each rename.
    pub(super) fn into_notes(self) -> Vec<String> {
        let renamed = self.renamed.into_iter().chain(self.moved);
        let end = if self.ender.is_some() { "; the session was ended" } else { "" };
        let note = |(old, new): (PathBuf, PathBuf)| {
            format!(
                "{}: renamed to {} on the host while the sandbox ran: the sandbox may have read what \
                 is hidden there in that moment; change these secrets{end}",
                Escaped(&old),
                Escaped(&new)
            )
        };
        renamed.map(note).collect()
    }
}

fn path_of(mask: &Mask) -> &Path {
    Path::new(OsStr::from_bytes(&mask.path))
}

#[cfg(test)]
mod tests {
    use pinfold_boundary::MaskKind;

    use super::*;

    #[test]
    fn a_hidden_file_and_a_directory_above_one_are_masked_at_their_new_places() {
        let mask = |path: &str| Mask { path: path.into(), kind: MaskKind::Hide };
        let mut hidden =
            Hidden::new(Path::new("/w"), vec![mask("/w/a/.env"), mask("/w/.env")], None).unwrap();
        let mut rename = |cookie, old: &str, new: &str| {
            hidden.note(ReadFlags::MOVED_FROM, cookie, Path::new(old));
            hidden.note(ReadFlags::MOVED_TO, cookie, Path::new(new));
        };
        rename(1, ".env", ".env~");
        rename(2, "a", "b");
        rename(3, "c", "d");
        rename(4, "a/.envx", "a/x");
        // Over it: the name stays masked.
        rename(5, "t", ".env");
        hidden.note(ReadFlags::MOVED_FROM, 6, Path::new(".env"));
        hidden.note(ReadFlags::MOVED_TO, 7, Path::new("other"));
        hidden.mask_moved();
        assert_eq!(hidden.masks[2..], [mask("/w/.env~"), mask("/w/b/.env")]);
        assert!(!hidden.has_moved());
        hidden.note(ReadFlags::CREATE | ReadFlags::ISDIR, 0, Path::new("c"));
        assert!(!hidden.has_moved());
        hidden.note(ReadFlags::CREATE | ReadFlags::ISDIR, 0, Path::new("a"));
        assert!(hidden.has_moved());
        hidden.mask_moved();
        hidden.note(ReadFlags::MOVED_FROM, 8, Path::new(".env~"));
        hidden.note(ReadFlags::MOVED_TO, 8, Path::new(".env.old"));
        hidden.mask_moved();
        assert_eq!(hidden.masks[4..], [mask("/w/.env.old")]);
        assert_eq!(hidden.into_notes().len(), 3);
    }
}
