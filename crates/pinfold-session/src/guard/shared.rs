//! The repositories of a session, for the thread that brings them in step.

use std::path::{Path, PathBuf};

use pinfold_policy::protect::Protection;

use super::Guard;
use crate::git::collect::{Collect, Phase};
use crate::git::private::Copied;

/// What is needed to bring a session's repositories in step with the host's.
#[derive(Debug)]
pub(crate) struct Repositories {
    copied: Vec<Copied>,
    session: String,
    /// Where results of scratch sandboxes lie.
    out: PathBuf,
    tops: Vec<(PathBuf, PathBuf)>,
    protection: Protection,
    hidden: Vec<PathBuf>,
}

impl Repositories {
    /// The repositories, each with its private directory.
    pub(crate) fn copied(&self) -> &[Copied] {
        &self.copied
    }

    /// How one of them is brought in step.
    pub(crate) fn collecting<'a>(
        &'a self,
        copied: &'a Copied,
        git: &'a Path,
        phase: Phase,
    ) -> Collect<'a> {
        Collect {
            copied,
            git,
            session: &self.session,
            out: self.out.join(format!("out-{}", copied.number)),
            tops: &self.tops,
            protection: &self.protection,
            hidden: &self.hidden,
            phase,
        }
    }
}

impl Guard {
    /// The repositories that are brought in step while the session lives. A view's changes wait for
    /// its end.
    pub(crate) fn repositories(&self) -> Repositories {
        let copied = if self.over.is_none() { self.copies.directories.clone() } else { Vec::new() };
        Repositories {
            copied,
            session: self.session.clone(),
            out: self.private.parent().unwrap_or(&self.private).to_owned(),
            tops: self.tops.clone(),
            protection: self.protection.clone(),
            hidden: self.hidden.clone(),
        }
    }

    /// The host's git, found where the session could not write.
    pub(crate) fn host_git(&self) -> Option<PathBuf> {
        let writable: Vec<PathBuf> = self.roots.iter().map(|root| root.path.clone()).collect();
        crate::launcher::find("git", &writable)
    }
}
