//! What the sandbox sees, from one authority: the tree that a boundary mounts comes from the same
//! grants that decide.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use pinfold_boundary::{Entry, Lower, Place};
use pinfold_policy::access::Access;
use pinfold_policy::authority::{
    Authority, AuthorityBuilder, Grant, Root, RootId, RootKind, Subject,
};
use pinfold_policy::origin::{Origin, Valued};
use pinfold_policy::path::{Escaped, HostPath, InsidePath, PathError};
use pinfold_policy::settings::{Settings, SettingsError};
use pinfold_protect::mounts;
use pinfold_rootfs::extra::Extra;
use pinfold_rootfs::system::{Seen, Stack};
use pinfold_rootfs::userland::{self, Piece, is_nested};
use pinfold_worktree::workspace::{GIT_OUTSIDE, Workspace};

use crate::RunError;
use crate::design::system_user;

/// Where a system keeps what lasts until its next start.
const RUN: &str = "/run";

/// The grants of a run, and the links of the userland, which lead nowhere that is not granted.
#[derive(Debug, Clone)]
pub(crate) struct View {
    builder: AuthorityBuilder,
    pub(crate) links: Vec<(InsidePath, OsString)>,
    /// Where the host's programs and libraries are that nobody has named.
    pub(crate) userland: Vec<InsidePath>,
    /// The system's directories that may be written to, each with what lies over what.
    views: Vec<(InsidePath, Vec<Lower>)>,
    /// An empty workspace.
    scratch: Option<InsidePath>,
    /// Empty directories of the session's own.
    directories: Vec<InsidePath>,
}

impl View {
    /// Collects the grants: the userland, the workspace, the settings' and the extra ones.
    ///
    /// # Errors
    /// Returns an error for a grant that does not exist on the host, or that the ceiling forbids.
    pub(crate) fn collect(
        subject: Subject,
        settings: &Settings,
        workspace: &Workspace,
        stack: Option<&Stack>,
        extra: Vec<Extra>,
    ) -> Result<Self, RunError> {
        let builder = Authority::builder(subject);
        let mut view = Self {
            builder,
            links: Vec::new(),
            userland: Vec::new(),
            views: Vec::new(),
            scratch: None,
            directories: settings
                .snapshot
                .directories
                .iter()
                .map(|directory| directory.value.path().clone())
                // Services and package managers of a whole system expect it.
                .chain(stack.map(|_| InsidePath::from_static(RUN)))
                .chain(system_user::directories(stack))
                .collect(),
        };
        match stack {
            Some(stack) => {
                view.stack(stack).map_err(RunError::System)?;
                if stack.over_host {
                    view.nested_programs().map_err(RunError::path)?;
                }
            }
            None => view.userland().map_err(RunError::path)?,
        }
        view.workspace(settings, workspace)?;
        for path in &settings.files.read {
            view.setting("files.read", path, Access::READ_ONLY, settings)?;
        }
        for path in &settings.files.write {
            view.setting("files.write", path, Access::FULL, settings)?;
        }
        for extra in extra {
            let Extra { id, kind, host, inside, access, origin, held: _ } = extra;
            let root = Root { id: RootId::new(id), kind, host, inside };
            view.add(Grant::new(root, access, origin));
        }
        Ok(view)
    }

    fn add(&mut self, grant: Grant) {
        let empty = Authority::builder(Subject::Core);
        self.builder = std::mem::replace(&mut self.builder, empty).grant(grant);
    }

    fn userland(&mut self) -> Result<(), PathError> {
        for piece in userland::pieces()? {
            match piece {
                Piece::Link(path, target) => self.links.push((path, target)),
                Piece::Granted(host, inside) => self.system(host, inside, Access::READ_ONLY),
            }
        }
        Ok(())
    }

    /// Adds those of the host's programs that no view can show alone.
    fn nested_programs(&mut self) -> Result<(), PathError> {
        for program in userland::PROGRAMS.map(Path::new) {
            if is_nested(program) && program.is_dir() {
                let host = HostPath::new(userland::real(program))?;
                let inside = InsidePath::new(program)?;
                self.system(host, inside, Access::READ_ONLY);
            }
        }
        Ok(())
    }

    /// Adds a system of trees, every directory of which can be written to: nothing of it is kept, or all
    /// of it for somebody to look at.
    fn stack(&mut self, stack: &Stack) -> io::Result<()> {
        let Seen { views, links } = stack.seen()?;
        self.links.extend(links);
        for (inside, places) in &views {
            if let Some(uppermost) = places.first() {
                self.system(uppermost.host().clone(), inside.clone(), Access::FULL);
            }
        }
        self.views = views;
        Ok(())
    }

    fn system(&mut self, host: HostPath, inside: InsidePath, access: Access) {
        self.userland.push(inside.clone());
        let id = RootId::new(format!("userland {inside}"));
        let root = Root { id, kind: RootKind::System, host, inside };
        self.add(Grant::new(root, access, Origin::Default));
    }

    fn workspace(&mut self, settings: &Settings, workspace: &Workspace) -> Result<(), RunError> {
        if workspace.is_scratch {
            let path = InsidePath::new(workspace.root.as_path()).map_err(RunError::path)?;
            if let Some((view, _)) = self.views.iter().find(|(view, _)| path.starts_with(view)) {
                let what = format!(
                    "{path} cannot be an empty workspace: {view} is the session's own system"
                );
                let hint = "start it in another directory, such as one of your home".to_owned();
                return Err(RunError::refused(what, Some(hint)));
            }
            self.scratch = Some(path).filter(|path| {
                !userland::PRIVATE.iter().any(|known| path.as_path() == Path::new(known))
            });
            return Ok(());
        }
        let roots =
            [("workspace", Some(&workspace.root)), (GIT_OUTSIDE, workspace.git_outside.as_ref())];
        for (id, host) in roots {
            let Some(host) = host else { continue };
            settings.ceiling.check_path(id, host, &Origin::Default).map_err(RunError::settings)?;
            let inside = InsidePath::new(host.as_path()).map_err(RunError::path)?;
            let kind = RootKind::Workspace;
            let root = Root { id: RootId::new(id), kind, host: host.clone(), inside };
            self.add(Grant::new(root, Access::FULL, Origin::Default));
        }
        Ok(())
    }

    /// Grants a path from the settings, which appears inside where it is on the host. A link is granted as
    /// what it leads to, if the administrator lets that be granted, too.
    fn setting(
        &mut self,
        key: &'static str,
        path: &Valued<HostPath>,
        access: Access,
        settings: &Settings,
    ) -> Result<(), RunError> {
        let canonical = std::fs::canonicalize(path.value.as_path()).map_err(|error| {
            let what = format!("cannot grant {} (by {}): {error}", path.value, path.origin);
            RunError::refused(what, Some("name a path that exists, or leave it out".to_owned()))
        })?;
        let host = HostPath::new(&canonical).map_err(RunError::path)?;
        settings.ceiling.check_path(key, &host, &path.origin).map_err(RunError::settings)?;
        let inside = InsidePath::new(&canonical).map_err(RunError::path)?;
        self.userland.retain(|unchosen| *unchosen != inside);
        let id = RootId::new(format!("{key} {host}"));
        let root = Root { id, kind: RootKind::Knowledge, host, inside };
        self.add(Grant::new(root, access, path.origin.clone()));
        Ok(())
    }

    /// Returns the empty directories of the session's own, except those in which it has something else.
    pub(crate) fn directories(&self) -> &[InsidePath] {
        &self.directories
    }

    /// Returns the authority over these grants alone.
    ///
    /// # Errors
    /// Returns an error for grants that contradict each other.
    pub(crate) fn authority(&self) -> Result<Authority, RunError> {
        self.restricted(Vec::new())
    }

    /// Returns the authority with restrictions within the grants.
    ///
    /// # Errors
    /// Returns an error for grants or restrictions that contradict each other.
    pub(crate) fn restricted(
        &self,
        restrictions: Vec<pinfold_policy::authority::Restriction>,
    ) -> Result<Authority, RunError> {
        let builder =
            restrictions.into_iter().fold(self.builder.clone(), AuthorityBuilder::restrict);
        builder.build(SystemTime::now()).map_err(|error| RunError::refused(error, None))
    }

    /// Returns the tree for a boundary: private places, the grants parents first, links.
    ///
    /// # Errors
    /// Returns an error for a grant whose rules no boundary enforces.
    pub(crate) fn tree(
        &self,
        authority: &Authority,
        stack: Option<&Stack>,
    ) -> Result<Vec<Entry>, RunError> {
        let mut tree = Vec::new();
        for path in userland::PRIVATE {
            let path = InsidePath::new(path).map_err(RunError::path)?;
            // What a view holds is its own, and what lies behind a link of the system is the system's.
            let is_behind = |(link, _): &(InsidePath, OsString)| path.starts_with(link);
            if !self.views.iter().any(|(view, _)| path.starts_with(view))
                && !self.links.iter().any(is_behind)
            {
                tree.push(Entry { path, place: Place::Private });
            }
        }
        let is_taken = |path: &InsidePath| {
            authority.grants().any(|grant| grant.root.inside == *path)
                || self.links.iter().any(|(link, _)| link == path)
                || self.scratch.as_ref() == Some(path)
        };
        let own = self.directories.iter().filter(|path| !is_taken(path)).cloned();
        tree.extend(own.map(|path| Entry { path, place: Place::Private }));
        let views = |path: &InsidePath| self.views.iter().find(|(view, _)| view == path);
        for mut entry in mounts::grants(authority)? {
            if let (Some((_, lower)), Some(stack)) = (views(&entry.path), stack) {
                let changes = stack.changes(&entry.path).map_err(RunError::System)?;
                entry.place = Place::Overlay { lower: lower.clone(), changes };
            }
            entry.place = match entry.place {
                Place::ReadOnly(host) if self.userland.contains(&entry.path) => Place::System(host),
                place => place,
            };
            tree.push(entry);
        }
        let scratch = self.scratch.iter().cloned();
        tree.extend(scratch.map(|path| Entry { path, place: Place::Private }));
        // A directory that is granted as it is on the host has its links.
        let is_there = |path: &InsidePath| {
            authority.governing(path).is_some_and(|grant| grant.root.kind != RootKind::System)
        };
        for (path, target) in self.links.iter().filter(|(path, _)| !is_there(path)) {
            let is_behind = |entry: &&Entry| entry.path != *path && entry.path.starts_with(path);
            if let Some(entry) = tree.iter().find(is_behind) {
                return Err(behind_a_link(&entry.path, path, target));
            }
            tree.push(Entry { path: path.clone(), place: Place::Symlink(target.clone()) });
        }
        Ok(tree)
    }
}

/// Refuses a place of the sandbox's that its system has behind a link.
fn behind_a_link(place: &InsidePath, link: &InsidePath, target: &OsStr) -> RunError {
    let target = Escaped(Path::new(target));
    let what = format!(
        "{place} cannot be put into the sandbox: {link} of its system is a link, to {target}"
    );
    let hint = format!("choose a system in which {link} is a directory, or leave {place} out");
    RunError::refused(what, Some(hint))
}

impl RunError {
    pub(crate) fn path(error: PathError) -> Self {
        Self::refused(error, None)
    }

    pub(crate) fn settings(error: SettingsError) -> Self {
        let hint = error.hint();
        Self::refused(error, hint)
    }
}

#[cfg(test)]
mod tests;
