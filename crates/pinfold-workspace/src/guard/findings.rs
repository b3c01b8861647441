//! What becomes of what the scan of a root has found.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use pinfold_host::file_id::Moment;
use pinfold_names::{Class, DIRECTORY_ENVIRONMENT, Missing, Placeholder as Kind, Protection, Site};
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_protect::certificates;
use pinfold_protect::directory_hook;
use pinfold_protect::home_parts::{left_by_parts, links_to_parts};
use pinfold_protect::newcomers::is_secret;
use pinfold_protect::protect::{Finding, Rules, What};
use pinfold_protect::restrict::holds_nothing;
use pinfold_protect::sockets;
use rustix::fs::FileType;

use super::granted::Granted;
use super::own_places::belongs;
use super::repositories::Git;
use super::state::Guard;

impl Guard {
    /// Takes in what one finding means.
    pub(super) fn take(&mut self, finding: Finding, git: &mut Git) {
        if is_secret(&finding) || matches!(finding.what, What::Denied(..)) {
            self.secret_names.insert(finding.path.clone());
        }
        let Finding { path, kind, what } = finding;
        let writable = self.protect.writable_root(&path).is_some();
        match what {
            // A server that has ended left it there.
            What::Socket if kind == FileType::Socket && sockets::is_dead(&path) => {}
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
            What::Own => self.protect.restrict(path, Effect::Hide, belongs()),
            What::Denied(reason, origin) => {
                self.protect.restrict_targets(&path, Effect::Hide, &reason);
                self.protect.restrict_by(path, Effect::Hide, reason, origin);
            }
            What::Named(class) if class.spares_certificates() && certificates::is_public(&path) => {
                self.public.insert(path.clone());
                if let Some(class) = class.executed().filter(|_| writable) {
                    self.take(Finding { path, kind, what: What::Named(class) }, git);
                }
            }
            What::Named(class)
                if class.effect() == Effect::Hide && kind == FileType::RegularFile =>
            {
                git.secrets.push((path, class));
            }
            What::Named(class) => {
                if kind == FileType::RegularFile && writable {
                    git.executed.push(path.clone());
                }
                if kind == FileType::Directory && writable && class.effect() == Effect::ReadOnly {
                    self.candidates.insert(path.clone(), class.reason());
                }
                self.protect.restrict_targets(&path, class.effect(), &class.reason());
                self.protect.restrict(path, class.effect(), class.reason());
            }
            What::Leads(led) => {
                for (rest, class) in led {
                    self.protect.restrict(path.clone(), Effect::ReadOnly, class.reason());
                    let below = path.join(rest);
                    if below != path && below.exists() {
                        self.protect.restrict_targets(&below, Effect::ReadOnly, &class.reason());
                    }
                }
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

    /// Protects what the caller's environment has in a root instead of in the home, and names that say
    /// nothing about it.
    pub(super) fn moved(&mut self, root: &Granted, rules: &Rules<'_>, git: &mut Git) {
        for relative in root.site.moved() {
            let path = root.path.join(relative);
            let class = rules.protection.classify(&root.site, relative);
            let is_meant = |class: &Class| root.writable || class.effect() == Effect::Hide;
            let found = fs::symlink_metadata(&path);
            if let (Some(class), Ok(found)) = (class.filter(is_meant), found) {
                let kind = FileType::from_raw_mode(found.mode());
                self.take(Finding { path, kind, what: What::Named(class) }, git);
            }
        }
    }

    /// Protects links on the way to what the caller's environment names. Of a directory that a way leaves by `..` only a link in
    /// its place would matter, which is judged at the end.
    pub(super) fn links_to_parts(&mut self) {
        let reason = || {
            let text = "a variable of your environment leads programs through it".into();
            Reason { why: Why::HostExecutes, text, opt_in: None }
        };
        for link in links_to_parts() {
            if self.protect.writable_root(&link).is_some_and(|root| root != link) {
                self.protect.restrict(link, Effect::ReadOnly, reason());
            }
        }
        for left in left_by_parts() {
            if self.protect.writable_root(&left).is_some_and(|root| root != left) {
                self.protect.expected.push((left, reason()));
            }
        }
    }

    /// Has what the shell's directory hook loads be named at the end, and wait in a view.
    pub(super) fn directory_hooks(&mut self, settings: &[PathBuf], rules: &Rules<'_>) {
        if rules.protection.is_lifted(DIRECTORY_ENVIRONMENT) {
            return;
        }
        let is_meant = |path: &Path| self.protect.writable_root(path).is_some();
        let loaded = directory_hook::loaded(settings, &rules.roots, &is_meant);
        for path in loaded {
            if self.over.as_ref().is_some_and(|root| path.starts_with(root)) {
                self.protect.expected.push((path, directory_hook::reason()));
            } else {
                let at_start = Moment::of(&path).ok();
                self.loaded.push((path, at_start));
            }
        }
    }

    /// Protects names that may be missing, at the top of a root or repository. A project that holds
    /// nothing yet stays empty: the look at the end finds what was made in it.
    pub(super) fn missing(&mut self, top: &Path, site: &Site, protection: &Protection) {
        let is_new = holds_nothing(top);
        for missing in protection.missing(site).filter(|it| it.is_of_home || !is_new) {
            let Missing { relative, placeholder, class, .. } = missing;
            let content: Option<&[u8]> = match placeholder {
                Kind::Directory => None,
                Kind::File => Some(b""),
            };
            let path = top.join(relative);
            if content.is_none() {
                self.candidates.insert(path.clone(), class.reason());
            }
            self.protect.restrict_missing(&path, content, class.reason());
        }
    }
}
