//! The granted roots that are looked at.

use std::path::PathBuf;

use pinfold_names::{HomePart, Site};
use pinfold_policy::access::Access;
use pinfold_policy::authority::{Authority, RootKind};
use pinfold_policy::origin::Origin;
use pinfold_protect::home_parts::site_of;
use pinfold_protect::own::Own;
use pinfold_protect::protect::Zone;
use pinfold_worktree::workspace::GIT_OUTSIDE;

/// One root to walk.
pub(super) struct Granted {
    pub(super) path: PathBuf,
    pub(super) site: Site,
    pub(super) writable: bool,
    /// Whether it belongs to the workspace, and nobody named it.
    pub(super) by_itself: bool,
    /// A git directory outside the workspace that belongs to it, or a tree.
    pub(super) zone: Zone,
}

/// Returns the roots to scan: what a user granted. Programs of the host and an agent's own state are
/// granted as they are.
pub(super) fn granted(authority: &Authority, homes: &[HomePart], own: &Own) -> Vec<Granted> {
    authority
        .grants()
        .filter(|grant| matches!(grant.root.kind, RootKind::Workspace | RootKind::Knowledge))
        .map(|grant| {
            let path = grant.root.host.as_path().to_owned();
            let site = site_of(&path, homes, own);
            let writable = grant.access.intersects(Access::CHANGING);
            let by_itself = grant.source == Origin::Default;
            let is_git = by_itself && grant.root.id.as_str().contains(GIT_OUTSIDE);
            let zone = if is_git { Zone::Git } else { Zone::Tree };
            Granted { path, site, writable, by_itself, zone }
        })
        .collect()
}
