//! What is made of what the look over a root has found.

use std::fs;
use std::path::{Path, PathBuf};

use pinfold_policy::authority::{Authority, Effect, Reason, Why};
use pinfold_policy::protect::{Missing, Placeholder as Kind, Protection, RootIs};
use rustix::fs::FileType;

use super::Guard;
use super::repositories::Git;
use crate::places::Places;
use crate::protect::{Finding, What};

impl Guard {
    /// What one finding means.
    pub(super) fn take(&mut self, finding: Finding, git: &mut Git) {
        let Finding { path, kind, what } = finding;
        let writable = self.protect.writable_root(&path).is_some();
        match what {
            What::Socket => {
                let text = "something on the host may listen there".into();
                let reason = Reason { why: Why::Denied, text, opt_in: None };
                self.protect.restrict(path, Effect::Hide, reason);
            }
            What::SetAside => {
                let text = "an earlier session's changes were set aside there".into();
                let reason = Reason { why: Why::Secret, text, opt_in: None };
                self.protect.restrict(path, Effect::Hide, reason);
            }
            What::Denied(reason, origin) => {
                self.protect.restrict_targets(&path, Effect::Hide, &reason);
                self.protect.restrict_by(path, Effect::Hide, reason, origin);
            }
            What::Named(class)
                if class.effect() == Effect::Hide && kind == FileType::RegularFile =>
            {
                git.secrets.push((path, class));
            }
            What::Named(class) => {
                self.protect.restrict_targets(&path, class.effect(), &class.reason());
                self.protect.restrict(path, class.effect(), class.reason());
            }
            What::GitDirectory if writable => {
                let top = path.parent().filter(|_| path.ends_with(".git"));
                // A git directory may be granted without the working tree around it.
                if let Some(top) = top.filter(|top| self.protect.writable_root(top).is_some()) {
                    git.tops.push((top.to_owned(), path.clone()));
                }
                git.directories.push(path);
            }
            What::GitFile if writable => self.git_file(path, kind, git),
            What::BareRepository if writable => git.bare.push(path),
            What::GitDirectory | What::GitFile | What::BareRepository => {}
        }
    }

    /// Names that are protected although they may be missing, at the top of a root or repository.
    pub(super) fn missing(&mut self, top: &Path, is: RootIs, protection: &Protection) {
        for Missing { relative, placeholder, class } in protection.missing(is) {
            let content: Option<&[u8]> = match placeholder {
                Kind::Directory => None,
                Kind::File => Some(b""),
            };
            self.protect.restrict_missing(&top.join(relative), content, class.reason());
        }
    }

    /// pinfold's own directories, but for what of them is granted. What is missing of them is hidden as
    /// well: what an inside made there, pinfold would take for its user's word. For the same reason
    /// nothing is made beside what is granted, and a part that may be written to is refused there.
    pub(super) fn own(&mut self, authority: &Authority, places: &Places) {
        let granted: Vec<PathBuf> =
            authority.grants().map(|grant| grant.root.host.as_path().to_owned()).collect();
        for place in [&places.state, &places.config, &places.cache] {
            let Ok(place) = fs::canonicalize(place) else {
                if self.protect.place_missing(place, None) {
                    self.protect.restrict(place.clone(), Effect::Hide, belongs());
                }
                continue;
            };
            self.hide_but(&place, &granted);
            let is_part = |root: &PathBuf| root.starts_with(&place) && *root != place;
            if granted.iter().any(is_part) && self.protect.writable_root(&place).is_some() {
                self.protect.restrict(place, Effect::ReadOnly, belongs());
            }
        }
    }

    pub(super) fn hide_but(&mut self, place: &Path, granted: &[PathBuf]) {
        if granted.iter().any(|root| root == place) {
            return;
        }
        if !granted.iter().any(|root| root.starts_with(place)) {
            let in_a_root = granted.iter().any(|root| place.starts_with(root));
            if in_a_root {
                self.protect.restrict(place.to_owned(), Effect::Hide, belongs());
            }
            return;
        }
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            self.hide_but(&entry.path(), granted);
        }
    }
}

fn belongs() -> Reason {
    Reason { why: Why::Own, text: "it belongs to pinfold".into(), opt_in: None }
}
