//! Files that are secret by name: hidden, unless git has their very content.

use std::path::{Path, PathBuf};

use pinfold_policy::path::Escaped;

use super::{Git, Guard};
use crate::tracked::Tracked;

impl Guard {
    /// Hides the files that are secret by name, but for those of which git has this very content.
    pub(super) fn hide_secrets(&mut self, git: &Git, roots: &[PathBuf]) {
        let files = git.secrets.iter().map(|(path, _)| path);
        let hidden = self.protect.hidden();
        let is_seen = |git: &Path| !git.ancestors().any(|above| hidden.contains(above));
        self.tracked = Tracked::look_up(files, roots, is_seen);
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

    /// What a person should know before the command starts.
    pub(crate) fn note(&self) -> Option<String> {
        /// More are not listed.
        const MOST: usize = 3;
        let hidden = &self.tracked.other;
        // A copy of the index passes over them.
        if hidden.is_empty() || !self.copies.directories.is_empty() {
            return None;
        }
        let names: Vec<String> =
            hidden.iter().take(MOST).map(|path| Escaped(path).to_string()).collect();
        let more = if hidden.len() > MOST { ", …" } else { "" };
        Some(format!(
            "git tracks {} hidden {} with another content ({}{more}): `git commit -a` inside \
             refuses them, with --git quarantine it passes over them",
            hidden.len(),
            if hidden.len() == 1 { "file" } else { "files" },
            names.join(", "),
        ))
    }
}
