//! A workspace of which the sandbox has a copy-on-write view.
//!
//! What is written there is the session's own until a user takes it over, so nothing needs to be
//! read-only, and nothing has to be made in the workspace to be masked. What is hidden stays
//! hidden, and git directories are private copies. What the host would execute is written down
//! instead: taking changes over passes it by.

use std::path::PathBuf;
use std::sync::Arc;

use pinfold_names::HomePart;
use pinfold_policy::authority::{Effect, Restriction, Why};
use pinfold_policy::settings::FileSettings;
use pinfold_protect::commands::Ahead;
use pinfold_protect::home_parts::site_of;
use pinfold_protect::names_at_start::Names;
use pinfold_protect::newcomers::Newcomers;

use super::state::Guard;
use crate::review::{AnyPath, Named, Part, Protected, Record, Repository, Top};

impl Guard {
    /// Returns the restrictions that hold although there is a view; the others are remembered.
    pub(super) fn without_view(&mut self, restrictions: Vec<Restriction>) -> Vec<Restriction> {
        let Some(root) = self.over.clone() else { return restrictions };
        let within = |path: &std::path::Path| path.starts_with(&root);
        self.protect.placeholders.retain(|placeholder| !within(&placeholder.path));
        let is_own = |restriction: &Restriction| restriction.reason.why == Why::Own;
        let (lifted, mut kept): (Vec<Restriction>, Vec<Restriction>) =
            restrictions.into_iter().partition(|restriction| {
                restriction.effect == Effect::ReadOnly && within(restriction.host.as_path())
            });
        // What is pinfold's own never comes out of a view, whether it is there or not.
        let own: Vec<Restriction> =
            kept.iter().filter(|it| is_own(it) && within(it.host.as_path())).cloned().collect();
        let is_missing = |it: &Restriction| std::fs::symlink_metadata(it.host.as_path()).is_err();
        kept.retain(|it| !is_own(it) || !within(it.host.as_path()) || !is_missing(it));
        let expected = self.protect.expected.extract_if(.., |(path, _)| within(path));
        let lifted =
            lifted.into_iter().chain(own).map(|it| (it.host.as_path().to_owned(), it.reason));
        self.named = lifted
            .chain(expected)
            .filter_map(|(path, reason)| {
                let path = path.strip_prefix(&root).ok()?.to_owned();
                let opt_in = reason.opt_in.map(String::from);
                let protected = Protected { reason: reason.text.into_owned(), opt_in };
                Some(Named { path, protected })
            })
            .collect();
        kept
    }

    /// Returns by what new names below a view are judged, if there is one.
    pub fn newcomers(&self, files: &FileSettings) -> Option<Newcomers> {
        let root = self.over.clone()?;
        Some(Newcomers {
            site: site_of(&root, &self.parts, &self.own),
            root,
            protection: self.protection.clone(),
            files: files.clone(),
            own: Arc::clone(&self.own),
            roots: self.readable.clone(),
            tops: self.copied_tops(),
            private: self.private.clone(),
            known: self.secret_names.iter().chain(&self.hidden).cloned().collect(),
        })
    }

    /// Adds to a session's record what is needed to take its changes over.
    pub fn complete(&mut self, record: &mut Record) {
        record.named = std::mem::take(&mut self.named);
        let within =
            |ahead: &&Ahead| self.over.as_ref().is_some_and(|root| ahead.written.starts_with(root));
        let written = |ahead: &Ahead| {
            let names = ahead.names.iter().map(|name| AnyPath(name.into())).collect();
            (AnyPath(ahead.written.clone()), AnyPath(ahead.directory.clone()), names)
        };
        record.ahead = self.ahead.iter().filter(within).map(written).collect();
        let shadowed = self.shadows.iter().map(|shadow| AnyPath(shadow.relative().to_owned()));
        record.shadowed = shadowed.collect();
        let copied = self.copies.directories.iter();
        record.repositories = copied
            .map(|copied| Repository {
                host: copied.host.path().to_owned(),
                private: copied.private.clone(),
                base: copied.base.clone(),
                number: copied.number,
                start: copied.start.clone(),
                stamps: copied.stamps.clone(),
            })
            .collect();
        let top = |(top, git): &(PathBuf, PathBuf)| Top { top: top.clone(), git: git.clone() };
        record.tops = self.tops.iter().map(top).collect();
        let part = |it: &HomePart| Part { path: it.path.clone(), name: it.name.clone() };
        record.parts = self.parts.iter().map(part).collect();
    }

    /// Returns the names that were found in the workspace.
    pub fn names(&self) -> &Names {
        &self.names
    }
}
