//! What a run would have restricted, for a caller that only asks.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use pinfold_boundary::namespace::inside_ids;
use pinfold_host::Host;
use pinfold_host::sessions::SessionState;
use pinfold_policy::authority::{Authority, Restriction};
use pinfold_policy::settings::Settings;
use pinfold_protect::own::Own;
use pinfold_protect::tracked::Tracked;
use pinfold_protect::trusted::Trusted;
use pinfold_rootfs::etc_files;
use pinfold_worktree::workspace::Workspace;

use super::refuse;
use super::state::Guard;
use crate::GuardError;
use crate::generated::{self, Generated};
use crate::shadow;

/// What a run would have restricted here and now.
#[derive(Debug)]
pub struct Found {
    pub restrictions: Vec<Restriction>,
    /// Files that are hidden for their names, in the light of git.
    pub tracked: Tracked,
    /// What is not hidden, since it is public certificates of the system.
    pub public: BTreeSet<PathBuf>,
}

/// Looks at what a run of this authority would have restricted here and now. `trusted` is by what
/// settings of the caller's have programs trust authorities.
///
/// # Errors
/// Returns the errors of the start of a run.
pub fn look(
    authority: &Authority,
    settings: &Settings,
    workspace: &Workspace,
    Host { places, launcher }: Host<'_>,
    trusted: Vec<Trusted>,
) -> Result<Found, GuardError> {
    let state = SessionState::create(places).map_err(GuardError::System)?;
    let over = workspace.under_view(settings);
    let shadows = shadow::find(settings, workspace)?;
    let own = Own::find(places).map_err(GuardError::System)?;
    refuse(authority, &own, settings, places)?;
    generated::refuse(authority)?;
    let mut guard =
        Guard::new(state.private(), state.id(), over, shadows, Arc::new(own), launcher.clone());
    guard.keep_trusted(trusted);
    guard.make().map_err(GuardError::System)?;
    let (uid, gid) = inside_ids();
    let mut files = etc_files::generated(uid, gid, None).map_err(GuardError::path)?;
    files.extend(guard.entries(workspace.root.as_path(), places)?);
    let generated = Generated::take_out(&mut files, authority, over)?;
    guard.put_over(generated);
    let restrictions = guard.find(authority, settings, places)?;
    Ok(Found { restrictions, tracked: guard.tracked, public: guard.public })
}
