//! Protection of files within grants, for one session: what is found before the command starts, the
//! masks for it, and what becomes of the sandbox's changes afterwards.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pinfold_boundary::namespace::inside_owner;
use pinfold_boundary::ownership::hand_over;
use pinfold_boundary::{Entry, Mask, MaskKind, Place};
use pinfold_git::layout::PRIVATE;
use pinfold_git::user_config::{self, Owners};
use pinfold_host::directories::Places;
use pinfold_host::file_id::FileId;
use pinfold_host::sessions::SessionState;
use pinfold_names::{COMMANDS, Protection, Site};
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, Effect, Reason, Restriction, Why};
use pinfold_policy::path::{HostPath, InsidePath};
use pinfold_policy::settings::{BranchName, Settings};
use pinfold_protect::began::Began;
use pinfold_protect::commands::ahead;
use pinfold_protect::home_parts::home_parts;
use pinfold_protect::mounts;
use pinfold_protect::protect::{Look, Rules, Surveyor, Zone};
use pinfold_protect::restrict::{Protect, Substitute, holds_nothing};
use pinfold_protect::stand_in::StandIns;
use pinfold_protect::survey::{Entries, Obstacle, Walk, walk};
use pinfold_protect::trusted::{self, Trusted};
use pinfold_rootfs::userland::HOME;

use crate::GuardError;
use crate::generated::Generated;
use crate::git::bytes;
use crate::protected_dirs::ProtectedDir;
use crate::shadow::Shadow;

mod findings;
mod granted;
pub(crate) mod left;
mod look;
mod own_places;
mod protected;
mod repositories;
mod secrets;
mod settle;
mod shared;
mod state;
mod under_view;

use granted::{Granted, granted};
pub use left::session_with;
pub use left::{settle_dead, shares};
pub use look::{Found, look};
pub use own_places::refuse;
use repositories::Git;
pub(crate) use shared::Repositories;
pub use state::Guard;
pub(crate) use state::Walked;
use state::protection;

impl Guard {
    /// Makes the directory of private copies. It has to be there when the boundary is launched.
    ///
    /// # Errors
    /// Returns the error of `mkdir(2)`.
    pub fn make(&self) -> io::Result<()> {
        fs::DirBuilder::new().mode(0o700).create(&self.private)?;
        hand_over(&self.private)
    }

    /// Adds the files that the session has of its own in what is granted.
    pub fn put_over(&mut self, generated: Generated) {
        self.generated = generated;
    }

    /// Has the session move no reference of the host's but this branch.
    pub fn hold_to(&mut self, branch: &BranchName) {
        self.only = Some(branch.reference());
    }

    /// Has nothing of the session's repositories come to the host: neither commits nor references.
    pub fn isolate_repositories(&mut self) {
        self.isolated = true;
    }

    /// Keeps the files by which the caller's variables have programs trust authorities, and these of the caller's settings.
    pub fn keep_trusted(&mut self, of_settings: Vec<Trusted>) {
        self.trusted = [trusted::of_variables(trusted::variable), of_settings].concat();
        // Behind a proxy that opens TLS, ten variables name one file.
        self.trusted.sort();
        self.trusted.dedup();
    }

    /// Returns what is shadowed in the workspace.
    pub fn shadows(&self) -> &[Shadow] {
        &self.shadows
    }

    /// Returns what the sandbox needs for it. The private copies are what `Effect::Private` means, not a
    /// grant of their own, so the authority does not list them. Directories that stand for what is
    /// missing are ignored by git inside, or `git clean` and `git stash -u` would try to remove them,
    /// and fail.
    ///
    /// # Errors
    /// Returns no error: the paths are valid.
    pub fn entries(&self, workspace: &Path, places: &Places) -> Result<[Entry; 3], GuardError> {
        let host = HostPath::new(&self.private).map_err(GuardError::path)?;
        let path = InsidePath::from_static(PRIVATE);
        let private = Entry { path, place: Place::Writable(host) };
        let protection = Protection::default();
        let site = Site::new(workspace, &home_parts(&places.homes()));
        let missing = protection.missing(&site).map(|missing| missing.relative);
        let has_placeholders = self.over.is_none() && !holds_nothing(workspace);
        let is_placed = |name: &PathBuf| {
            has_placeholders && fs::symlink_metadata(workspace.join(name)).is_err()
        };
        let absent = missing.filter(is_placed);
        let lines = absent.flat_map(|name| [b"/", bytes(&name).as_slice(), b"/\n"].concat());
        let ignore = git_file("ignore", lines.collect())?;
        let owners = if inside_owner().is_some() { Owners::Other } else { Owners::Same };
        let content = user_config::settings(&user_config::files(places), &places.home, owners);
        Ok([private, ignore, git_file("config", content)?])
    }

    /// Scans the granted roots and returns what was found.
    ///
    /// # Errors
    /// Returns an error for a tree that cannot be scanned, an opt-in that is unknown, or a
    /// protection that cannot be put in place: then nothing starts.
    pub fn prepare(
        &mut self,
        authority: &Authority,
        settings: &Settings,
        places: &Places,
        state: &mut SessionState,
    ) -> Result<Vec<Restriction>, GuardError> {
        self.before.began = Began::now();
        let fixed = authority.grants().filter(|grant| !grant.access.intersects(Access::CHANGING));
        self.before.fixed = fixed.map(|grant| grant.root.host.as_path().to_owned()).collect();
        let mut restrictions = self.find(authority, settings, places)?;
        hand_over(&self.private).map_err(GuardError::System)?;
        // After the owner changed, which is a change of the file.
        self.copies.note_stamps();
        let placeholders = &self.protect.placeholders;
        state.make_placeholders(placeholders).map_err(GuardError::System)?;
        // What nobody could make cannot be masked, and needs not be.
        let absent = |path: &Path| fs::symlink_metadata(path).is_err();
        let absent: HashSet<&Path> = placeholders
            .iter()
            .map(|made| made.path.as_path())
            .filter(|path| absent(path))
            .collect();
        restrictions.retain(|restriction| !absent.contains(restriction.host.as_path()));
        self.protected_dirs.retain(|dir| !absent.contains(dir.path.as_path()));
        self.protected_dirs.iter_mut().for_each(ProtectedDir::note_start);
        self.remember(&restrictions);
        self.opt_in = settings.files.opt_in.iter().map(|name| name.value.clone()).collect();
        self.write_down(state.private()).map_err(GuardError::System)?;
        let newcomers = self.newcomers(&settings.files);
        let written = newcomers.map_or(Ok(()), |new| new.write_down(state.private()));
        written.map_err(GuardError::System)?;
        Ok(restrictions)
    }

    /// Looks the granted roots over. Changes nothing in them.
    ///
    /// # Errors
    /// Returns an error for a tree that cannot be scanned, or an opt-in that is unknown.
    fn find(
        &mut self,
        authority: &Authority,
        settings: &Settings,
        places: &Places,
    ) -> Result<Vec<Restriction>, GuardError> {
        let files = &settings.files;
        let protection = protection(files)?;
        self.parts = home_parts(&places.homes());
        let granted = granted(authority, &self.parts, &self.own);
        let writable = granted.iter().map(|root| (root.path.clone(), root.writable));
        self.protect = Protect::new(writable.collect());
        if !protection.is_lifted(COMMANDS) {
            let writable = granted.iter().filter(|root| root.writable);
            self.ahead = ahead(&writable.map(|root| root.path.clone()).collect::<Vec<_>>());
        }
        let roots: Vec<PathBuf> = granted.iter().map(|root| root.path.clone()).collect();
        self.readable.clone_from(&roots);
        let own = Arc::clone(&self.own);
        let rules = Rules { protection, files, own: &own, roots };
        let mut git = Git::default();
        for root in granted.iter().filter(|root| root.writable) {
            self.copies.begin_with_index(&root.path, &self.private);
        }
        for root in &granted {
            self.scan_root(root, &rules, &mut git, &places.cache)?;
            // A file has nothing in it that could be missing.
            if root.writable && root.path.is_dir() {
                self.missing(&root.path, &root.site, &rules.protection);
            }
            if root.path.is_dir() {
                self.moved(root, &rules, &mut git);
            }
        }
        self.links_to_parts();
        self.own(authority);
        trusted::keep(&mut self.protect, &self.trusted, &self.own, holds_nothing);
        self.hide_secrets(&git, &rules.roots);
        self.directory_hooks(&git.hooks, &rules);
        self.heed_links(&granted, &places.cache);
        let mut git = self.tops(git, &rules, &places.cache)?;
        self.heed_others(&mut git, places)?;
        self.copy_git(git, &granted, places)?;
        self.copy_protected()?;
        for shadow in &self.shadows {
            shadow.protect(&mut self.protect);
        }
        self.generated.protect(&mut self.protect);
        self.generated.check(&self.protect)?;
        let restrictions = self.protect.finish()?;
        let restrictions = self.without_view(restrictions);
        self.protection = rules.protection;
        Ok(restrictions)
    }

    /// Notes which files and directories are protected.
    fn remember(&mut self, restrictions: &[Restriction]) {
        let id = |restriction: &Restriction| {
            let path = restriction.host.as_path();
            Some((path.to_owned(), FileId::of(path).ok()?))
        };
        self.known = restrictions.iter().filter_map(id).collect();
        let is_executed =
            |it: &&Restriction| it.effect == Effect::ReadOnly && it.reason.why == Why::HostExecutes;
        let executed = restrictions.iter().filter(is_executed);
        self.executed = executed.map(|it| it.host.as_path().to_owned()).collect();
    }

    /// Hides directories that the look could not enter: what is in them may be a secret, and their
    /// owner can open them.
    fn hide_unseen(&mut self, root: &Path, walk: &Walk<Zone>) {
        for unseen in walk.unseen() {
            let text = match unseen.why {
                Obstacle::Closed => "it cannot be read, so its content is unknown",
                Obstacle::TooDeep => "it is nested too deeply to be looked at",
            };
            let reason = Reason { why: Why::Secret, text: text.into(), opt_in: None };
            self.protect.close(root.join(&unseen.path), reason);
        }
    }

    fn scan_root(
        &mut self,
        root: &Granted,
        rules: &Rules<'_>,
        git: &mut Git,
        cache: &Path,
    ) -> Result<(), GuardError> {
        let found = fs::symlink_metadata(&root.path);
        // A link that was put there since may not go without a look.
        if found.is_ok_and(|entry| !entry.is_dir() && !entry.is_symlink()) {
            return Ok(());
        }
        let mut surveyor =
            Surveyor::new(rules, &root.path, &root.site, root.writable, Look::Before);
        let is_view = self.over.as_ref() == Some(&root.path);
        let names = &mut self.names;
        let before = &mut self.before;
        let needs_all = is_view || surveyor.needs_all_names();
        let entries = if needs_all { Entries::All } else { Entries::Notable };
        let walked = walk(&root.path, root.zone, cache, entries, &mut |visited, zone, below| {
            if is_view {
                names.add(visited.listing);
            }
            before.note(&root.path, visited);
            surveyor.visit(visited.listing, zone, below);
        });
        if !is_view {
            self.built.add(std::mem::take(&mut surveyor.built));
        }
        let walk = walked.map_err(|errno| {
            let what = format!("cannot scan {}: {errno}", root.path.display());
            GuardError::refused(what, Some("grant a directory below it instead".to_owned()))
        })?;
        self.hide_unseen(&root.path, &walk);
        if root.writable && !is_view {
            self.roots.push(Walked { path: root.path.clone(), site: root.site.clone(), walk });
        }
        for finding in surveyor.findings {
            git.hooks
                .extend(finding.directory_hook().filter(|_| root.writable).map(Path::to_owned));
            self.take(finding, git);
        }
        Ok(())
    }

    /// Returns the masks for an authority, with what stands for private copies and for hidden files.
    pub fn masks(&self, authority: &Authority, stand_ins: Option<&StandIns>) -> Vec<Mask> {
        let masks = mounts::masks(authority, &|effect, host| match effect {
            Effect::Hide if self.protect.closed.contains(host.as_path()) => Some(MaskKind::Close),
            Effect::Hide => stand_ins?.mask(host.as_path()),
            Effect::ReadOnly => None,
            Effect::Private => {
                let Substitute(from) = self.protect.substitutes.get(host.as_path())?;
                Some(MaskKind::Replace(bytes(from)))
            }
        });
        self.copies.masks().chain(masks).collect()
    }
}

/// Returns a file among git's own settings in the sandbox's home.
fn git_file(name: &str, content: Vec<u8>) -> Result<Entry, GuardError> {
    let path = Path::new(HOME).join(".config/git").join(name);
    let path = InsidePath::new(path).map_err(GuardError::path)?;
    Ok(Entry { path, place: Place::File { content, mode: 0o644, keep: true } })
}
