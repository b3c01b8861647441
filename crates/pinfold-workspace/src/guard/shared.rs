//! The repositories of a session, for the thread that brings them in step.

use std::io;
use std::path::PathBuf;

use pinfold_host::launcher::HostProgram;
use pinfold_names::{Protection, Site};
use pinfold_protect::commands::Commands;
use pinfold_protect::patience::Patience;
use pinfold_protect::set_aside::SetAside;

use super::state::Guard;
use crate::git::collect::{Collect, MayMove, Phase, Recorded};
use crate::git::modules::Modules;
use crate::git::private::Copied;
use crate::git::rebuild::Reader;

/// What is needed to bring a session's repositories in step with the host's.
#[derive(Debug)]
pub struct Repositories {
    copied: Vec<Copied>,
    session: String,
    /// The only reference of the host's that the session may move, if there is one such.
    only: Option<String>,
    /// Where results of scratch sandboxes lie.
    out: PathBuf,
    tops: Vec<(PathBuf, PathBuf)>,
    protection: Protection,
    roots: Vec<(PathBuf, Site)>,
    named: Vec<PathBuf>,
    commands: Commands,
    hidden: Vec<PathBuf>,
    /// Objects that the session borrows, and where they are mounted.
    borrowed: Vec<(PathBuf, PathBuf)>,
}

impl Repositories {
    /// Returns the repositories, each with its private directory.
    pub(crate) fn copied(&self) -> &[Copied] {
        &self.copied
    }

    /// Returns how one of them is brought in step.
    pub(crate) fn collecting<'a>(
        &'a self,
        copied: &'a Copied,
        git: &'a HostProgram,
        rebuilt: &'a [PathBuf],
        phase: Phase,
    ) -> Collect<'a> {
        Collect {
            copied,
            all: &self.copied,
            rebuilt,
            git,
            session: &self.session,
            may_move: MayMove::only(self.only.as_deref()),
            out: self.out.join(own_name(&format!("out-{}", copied.number))),
            tops: &self.tops,
            protection: &self.protection,
            roots: &self.roots,
            named: &self.named,
            commands: &self.commands,
            hidden: &self.hidden,
            phase,
            recorded: Recorded::default(),
        }
    }

    /// Returns how submodules that the session made come to the host. `aside` takes what is left of them at the end.
    pub(crate) fn modules<'a>(
        &'a self,
        git: &HostProgram,
        phase: Phase,
        aside: Option<&'a SetAside>,
        patience: Option<&'a Patience>,
    ) -> Modules<'a> {
        let reader = Reader {
            out: self.out.join(own_name("modules")),
            borrowed: self.borrowed.clone(),
            launcher: git.launcher().clone(),
        };
        let (copied, tops, session) = (&self.copied, &self.tops, &self.session);
        Modules { copied, tops, git: git.clone(), session, reader, phase, aside, patience }
    }
}

/// Returns a name that no other process uses. The next start settles what a killed supervisor left, and
/// scratch sandboxes that the killed one has started may still be writing.
fn own_name(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

impl Guard {
    /// Returns the repositories that are brought in step while the session lives. A view's changes wait for its end.
    pub fn repositories(&self) -> Repositories {
        let is_shared = self.over.is_none() && !self.isolated;
        let copied = if is_shared { self.copies.directories.clone() } else { Vec::new() };
        Repositories {
            copied,
            session: self.session.clone(),
            only: self.only.clone(),
            out: self.private.parent().unwrap_or(&self.private).to_owned(),
            tops: self.tops.clone(),
            protection: self.protection.clone(),
            roots: self.roots.iter().map(|it| (it.path.clone(), it.site.clone())).collect(),
            named: self
                .executed
                .iter()
                .chain(self.loaded.iter().map(|it| &it.0))
                .cloned()
                .collect(),
            commands: Commands::new(&self.ahead, &self.writable()),
            hidden: self.hidden.clone(),
            borrowed: self.copies.borrowed().cloned().collect(),
        }
    }

    /// Reads repositories that the session made.
    pub(super) fn reader(&self) -> Reader {
        let borrowed = self.copies.borrowed().cloned().collect();
        let out = self.private.with_file_name(own_name("rebuild"));
        Reader { out, borrowed, launcher: self.launcher.clone() }
    }

    /// Returns the host's git, found where the session could not write.
    ///
    /// # Errors
    /// Returns the errors of [`pinfold_host::launcher::Launcher::find`].
    pub fn host_git(&self) -> io::Result<HostProgram> {
        self.launcher.find("git", &self.writable())
    }

    /// Returns the roots that the session could write to.
    pub(crate) fn writable(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }
}
