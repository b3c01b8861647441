//! Hidden files that the host renames while a session works in a view, and secrets that it makes there.
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
use rustix::fs::FileType;
use rustix::fs::inotify::ReadFlags;

use super::made::{Made, kind_of};
use crate::masks::{Fell, Kept};
use crate::newcomers::Newcomers;

/// Renames of which one side is known, and renames that are listed.
const MOST: usize = 64;

/// Masks that are followed to further names at most.
const MOST_MASKS: usize = 4096;

/// Masks in a message, which is far longer than so many paths.
const MOST_AT_ONCE: usize = 8;

/// What is hidden in a view.
pub struct Hidden {
    made: Made,
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
    /// Follows the masks of a view, whose changes lie in `upper`, and masks what is new below it.
    ///
    /// # Errors
    /// Returns the error of duplicating a descriptor.
    pub fn new(
        newcomers: Newcomers,
        upper: PathBuf,
        mut masks: Vec<Mask>,
        kept: Option<&Kept>,
    ) -> io::Result<Self> {
        masks.retain(|mask| mask.kind.hides());
        let made = Made::new(newcomers, upper);
        let ender = kept.map(Kept::ender).transpose()?.flatten();
        let keeper = kept.map(Kept::channel);
        let (begun, moved, renamed) = (VecDeque::new(), Vec::new(), BTreeSet::new());
        let (own, is_replaced) = (masks.len(), false);
        Ok(Self { made, masks, own, keeper, ender, begun, is_replaced, moved, renamed })
    }

    pub(super) fn workspace(&self) -> &Path {
        self.made.workspace()
    }

    /// Notes what has happened to a path in the workspace.
    pub(super) fn note(&mut self, what: ReadFlags, cookie: u32, path: &Path) {
        let host = self.workspace().join(path);
        if what.contains(ReadFlags::MOVED_FROM) {
            if self.is_masked_below(&host) || self.made.has_below(path) {
                self.begun.truncate(MOST - 1);
                self.begun.push_front((cookie, path.to_owned()));
            }
        } else if what.intersects(ReadFlags::MOVED_TO | ReadFlags::CREATE) {
            self.is_replaced |= self.is_masked_below(&host);
            let begun = self.begun.iter().find(|(begun, _)| *begun == cookie);
            if let Some((_, old)) = begun.cloned() {
                self.made.note_move(&old, path);
                let old = self.workspace().join(old);
                if self.is_masked_below(&old) {
                    let masks = self.moved_masks(&old, &host);
                    self.made.leave_out(masks.iter().map(|mask| path_of(mask).to_owned()));
                    self.moved.push((old, host));
                }
            }
            if let Some((above, name)) = path.parent().zip(path.file_name()) {
                let kind = kind_of(what.contains(ReadFlags::ISDIR));
                self.note_names(above, std::iter::once((name.as_bytes(), kind)));
            }
        }
    }

    /// Returns whether a mask lies at a path or below it.
    fn is_masked_below(&self, path: &Path) -> bool {
        self.masks.iter().any(|mask| path_of(mask).starts_with(path))
    }

    /// Notes what lies in a directory of the workspace.
    pub(super) fn note_names<'n>(
        &mut self,
        directory: &Path,
        names: impl Iterator<Item = (&'n [u8], FileType)>,
    ) {
        self.made.note(directory, names);
    }

    /// Has new names of secrets masked that the view shows already.
    pub(super) fn mask_new(&mut self) {
        let masks = self.made.take_due();
        self.send_new(&masks);
    }

    /// Has all of them masked, once the view has forgotten what it did not show.
    pub(super) fn mask_new_again(&self) {
        self.send_new(&self.made.all_masks());
    }

    fn send_new(&self, masks: &[Mask]) {
        for masks in masks.chunks(MOST_AT_ONCE) {
            self.send(&LaunchOrder::MaskNew(masks.to_vec()));
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
            std::iter::once(&[][..]).chain(followed).for_each(|masks| self.send_masks(masks));
        }
        if let Some(ender) = self.ender.as_ref().filter(|_| !self.moved.is_empty()) {
            ender.end();
        }
        for (old, new) in std::mem::take(&mut self.moved) {
            let masks = self.moved_masks(&old, &new);
            masks.chunks(MOST_AT_ONCE).for_each(|masks| self.send_masks(masks));
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

    fn send_masks(&self, masks: &[Mask]) {
        self.send(&LaunchOrder::Mask(masks.to_vec()));
    }

    fn send(&self, order: &LaunchOrder) {
        // If the helper has ended, so does the session.
        let _ = self.keeper.as_ref().map(|keeper| keeper.send(order, &[]));
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

    /// Returns what the user should know, one line for each rename, and what is new.
    pub(super) fn into_fell(self) -> Fell {
        let renamed: Vec<_> = self.renamed.into_iter().chain(self.moved).collect();
        let new_names = renamed.iter().map(|(_, new)| new.clone()).collect();
        let end = if self.ender.is_some() { "; the session was ended" } else { "" };
        let note = |(old, new): (PathBuf, PathBuf)| {
            format!(
                "{}: renamed to {} on the host while the sandbox ran: the sandbox may have read what \
                 is hidden there in that moment; change these secrets{end}",
                Escaped(&old),
                Escaped(&new)
            )
        };
        let notes = renamed.into_iter().map(note).collect();
        Fell { notes, renamed: new_names, made: self.made.into_paths(), ..Fell::default() }
    }
}

fn path_of(mask: &Mask) -> &Path {
    Path::new(OsStr::from_bytes(&mask.path))
}

#[cfg(test)]
mod tests {
    use pinfold_boundary::MaskKind;
    use pinfold_policy::origin::Valued;
    use pinfold_policy::settings::{AgentState, FileSettings};

    use super::*;

    fn newcomers(known: BTreeSet<PathBuf>) -> Newcomers {
        Newcomers {
            root: PathBuf::from("/w"),
            site: pinfold_names::Site::of_names(Path::new("/w")),
            protection: pinfold_names::Protection::default(),
            files: FileSettings {
                read: Vec::new(),
                write: Vec::new(),
                deny: Vec::new(),
                sockets: Vec::new(),
                opt_in: Vec::new(),
                state: Valued::default_of(AgentState::Ephemeral),
                my_config: Valued::default_of(true),
            },
            own: Arc::default(),
            roots: Vec::new(),
            tops: Vec::new(),
            private: PathBuf::new(),
            known,
        }
    }

    #[test]
    fn a_hidden_file_and_a_directory_above_one_are_masked_at_their_new_places() {
        let mask = |path: &str| Mask { path: path.into(), kind: MaskKind::Hide };
        let masks = vec![mask("/w/a/.env"), mask("/w/.env")];
        let known = masks.iter().map(|mask| path_of(mask).to_owned()).collect();
        let mut hidden = Hidden::new(newcomers(known), PathBuf::new(), masks, None).unwrap();
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
        assert_eq!(hidden.into_fell().notes.len(), 3);
    }
}
