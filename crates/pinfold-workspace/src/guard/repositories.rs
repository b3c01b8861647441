//! The git directories that were found, and the private ones that stand for them.

use std::path::{Path, PathBuf};

use pinfold_git::known::Known;
use pinfold_git::layout::{CONFIGS, PRIVATE};
use pinfold_git::{pointer, user_config};
use pinfold_host::directories::Places;
use pinfold_names::{BARE_REPOSITORIES, Class, Site};
use pinfold_policy::authority::{Effect, Reason, Why};
use pinfold_protect::protect::{Rules, Zone};
use pinfold_protect::restrict::{Substitute, follow};
use pinfold_protect::tracked;
use pinfold_protect::trusted::variable;
use rustix::fs::FileType;

use super::Granted;
use super::left::others;
use super::state::Guard;
use crate::GuardError;
use crate::git::named::Scope;

/// What of git was found.
#[derive(Default)]
pub(super) struct Git {
    pub(super) directories: Vec<PathBuf>,
    /// Directories whose `.git` was found, the tops of working trees, each with its git directory.
    pub(super) tops: Vec<(PathBuf, PathBuf)>,
    /// Bare repositories in a tree.
    pub(super) bare: Vec<PathBuf>,
    /// Files that are secret by name.
    pub(super) secrets: Vec<(PathBuf, Class)>,
    /// Other files that may not be changed.
    pub(super) executed: Vec<PathBuf>,
    /// Settings of the shell's directory hook.
    pub(super) hooks: Vec<PathBuf>,
}

impl Guard {
    /// Protects a `.git` that leads elsewhere: it stays as it is, and where it leads is a git directory.
    pub(super) fn git_file(&mut self, path: PathBuf, kind: FileType, git: &mut Git) {
        let text = "it tells git where its directory is".into();
        let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
        let led = match kind {
            FileType::Symlink => {
                let followed = follow(&path);
                for link in followed
                    .iter()
                    .flat_map(|followed| followed.links.iter().filter(|link| **link != path))
                {
                    self.protect.restrict(link.clone(), Effect::ReadOnly, reason.clone());
                }
                followed.map(|followed| followed.end)
            }
            _ => pointer::gitdir(&path),
        };
        let led = led.filter(|led| led.is_dir() && self.protect.writable_root(led).is_some());
        let top = path.parent().unwrap_or(&path).to_owned();
        git.tops.push((top, led.clone().unwrap_or_default()));
        git.directories.extend(led);
        self.protect.restrict(path, Effect::ReadOnly, reason);
    }

    /// Protects the tops of working trees, and notes which of the repositories are in use.
    pub(super) fn tops(
        &mut self,
        mut git: Git,
        rules: &Rules<'_>,
        cache: &Path,
    ) -> Result<Git, GuardError> {
        for path in std::mem::take(&mut git.bare) {
            if git.directories.contains(&path) {
                // Something points to it: it is in use, with all that lies in it.
                let (site, zone) = (Site::of_names(&path), Zone::Git);
                let root = Granted { path, site, writable: true, by_itself: true, zone };
                self.scan_root(&root, rules, &mut git, cache)?;
            } else if self.is_working_tree(&path, &git.tops)
                || rules.protection.is_lifted(BARE_REPOSITORIES)
            {
                continue;
            } else if self.readable.contains(&path) {
                let what = format!("{} looks like a bare repository to git", path.display());
                let hint = "make a working tree of it (git worktree add) and start there; if it is \
                            no repository, rename HEAD, objects or refs";
                return Err(GuardError::refused(what, Some(hint.to_owned())));
            } else {
                let text = "git on the host runs the hooks and configuration in it".into();
                let opt_in = Some(BARE_REPOSITORIES.into());
                let reason = Reason { why: Why::HostExecutes, text, opt_in };
                self.protect.restrict(path, Effect::ReadOnly, reason);
            }
        }
        for (top, _) in &git.tops {
            self.missing(top, &Site::of_names(top), &rules.protection);
        }
        git.directories.sort();
        git.directories.dedup();
        Ok(git)
    }

    /// Takes for new what is new to another live session, which could hide it while that session ends, and
    /// hides the git directories that it made or can change. They are not rebuilt yet, so no git of the
    /// host's may run in them for this session.
    ///
    /// # Errors
    /// Returns the errors of [`others`].
    pub(super) fn heed_others(&mut self, git: &mut Git, places: &Places) -> Result<(), GuardError> {
        let others = others(places, &self.session, &self.readable)?;
        for other in &others {
            self.before.began = self.before.began.or_earlier(other.began);
            self.before.odd.retain(|odd| other.found(odd));
        }
        let is_theirs = |path: &Path| others.iter().any(|other| other.owns(path));
        git.tops.retain(|(_, git)| !is_theirs(git));
        for path in git.directories.extract_if(.., |path| is_theirs(path)) {
            let text = "another session that works here has made it, or can change it".into();
            let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
            self.protect.restrict(path, Effect::Hide, reason);
        }
        Ok(())
    }

    /// Returns whether git takes this directory for the working tree of a repository that was there at
    /// the start, so that it does not look whether the directory itself is a repository.
    pub(crate) fn is_working_tree(&self, top: &Path, tops: &[(PathBuf, PathBuf)]) -> bool {
        let is_there = |path: PathBuf, is: fn(&std::fs::Metadata) -> bool| {
            std::fs::metadata(path).is_ok_and(|found| is(&found))
        };
        tops.iter().any(|(path, git)| {
            path == top
                && is_there(git.join("HEAD"), std::fs::Metadata::is_file)
                && (git.join("commondir").is_file()
                    || is_there(git.join("objects"), std::fs::Metadata::is_dir)
                        && is_there(git.join("refs"), std::fs::Metadata::is_dir))
        })
    }

    /// Returns whether the session has a private directory in the place of this git directory.
    pub(crate) fn has_private(&self, git: &Path) -> bool {
        self.copies.directories.iter().any(|copied| copied.host.path() == git)
    }

    /// Returns the working trees that were found, each with its git directory.
    pub(crate) fn working_trees(&self) -> &[(PathBuf, PathBuf)] {
        &self.tops
    }

    /// Makes a private copy of each git directory. The sandbox never writes one that git on the host reads.
    pub(super) fn copy_git(
        &mut self,
        git: Git,
        granted: &[Granted],
        places: &Places,
    ) -> Result<(), GuardError> {
        if git.directories.is_empty() {
            self.named(None, &[PathBuf::from("/")], places);
        }
        for (number, host) in git.directories.iter().enumerate() {
            let worktrees = host.join("worktrees");
            let of_this = |git: &Path| git == host || git.parent() == Some(&worktrees);
            let tops = git.tops.iter().filter(|(_, git)| of_this(git));
            let tops: Vec<PathBuf> = tops.map(|(top, _)| top.clone()).collect();
            self.named(Some(host), &tops, places);
            let copied = self.private.join(number.to_string());
            let is_within = |other: &PathBuf| other != host && host.starts_with(other);
            if git.directories.iter().any(is_within) {
                continue;
            }
            if granted.iter().any(|root| root.path == *host && !root.by_itself) {
                let what = format!("{} is granted by name: it cannot be copied", host.display());
                let hint = "grant its working tree instead, or grant it with --read".to_owned();
                return Err(GuardError::refused(what, Some(hint)));
            }
            self.copies.make(host, number, &copied, &mut self.protect)?;
            let inside = Path::new(PRIVATE).join(number.to_string());
            let text =
                "the host takes only commits, branches, tags, notes and stashes from it".into();
            let reason = Reason { why: Why::HostExecutes, text, opt_in: None };
            self.protect.substitute(host.clone(), Substitute(inside), reason);
        }
        self.copies.end_with_index();
        self.tops = git.tops;
        self.hidden = self.protect.hidden().into_iter().collect();
        let (tops, Self { hidden, read_only, private, .. }) = (self.copied_tops(), self);
        tracked::skip_hidden(hidden, read_only, &tops, private).map_err(GuardError::System)
    }

    /// Returns the working trees, each with the private copy of its git directory.
    pub(super) fn copied_tops(&self) -> Vec<(PathBuf, PathBuf)> {
        let copied = self.tops.iter().map(|(top, git)| (top, self.copies.copy_of(git)));
        copied.filter_map(|(top, copy)| Some((top.clone(), copy?))).collect()
    }

    /// Returns the repositories, for commands on the host.
    pub fn known(&self, places: &Places) -> Vec<Known> {
        let borrowed = |(host, inside): &(PathBuf, PathBuf)| (inside.clone(), host.clone());
        let borrowed: Vec<_> = self.copies.borrowed().map(borrowed).collect();
        let is_led = |(_, git): &&(PathBuf, PathBuf)| !git.as_os_str().is_empty();
        let known = |(top, git): &(PathBuf, PathBuf)| {
            Known::read(top, git, self.copies.copy_of(git), borrowed.clone(), places)
        };
        self.tops.iter().filter(is_led).map(known).collect()
    }

    /// Finds what the configurations that are in force in a repository, or everywhere, name in the granted roots.
    fn named(&mut self, host: Option<&Path>, tops: &[PathBuf], places: &Places) {
        let scope = Scope { git: host.unwrap_or(Path::new("/")), tops, home: &places.home };
        let own = host.into_iter().flat_map(|host| CONFIGS.iter().map(|name| host.join(name)));
        for file in own.chain(user_config::files_of(places, variable)) {
            scope.protect_named_by(&file, &mut self.protect);
        }
        let settings = user_config::of_variables(variable);
        scope.protect_named_by_variables(&settings, &mut self.protect);
    }
}
