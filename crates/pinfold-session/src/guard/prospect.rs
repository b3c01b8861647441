//! What a run would have, for who only asks.

use std::path::Path;
use std::sync::Arc;

use pinfold_boundary::namespace::inside_ids;
use pinfold_host::directories::Places;
use pinfold_host::sessions::SessionState;
use pinfold_policy::authority::Authority;
use pinfold_policy::settings::Settings;
use pinfold_protect::own::Own;
use pinfold_protect::tracked::Tracked;
use pinfold_rootfs::userland;

use super::{Guard, refuse};
use crate::RunError;
use crate::generated::{self, Generated};
use crate::shadow;
use crate::view::View;
use crate::workspace::Workspace;

/// The authority that a run would have here and now, without starting one.
#[derive(Debug)]
pub struct Prospect {
    /// The authority.
    pub authority: Authority,
    tracked: Tracked,
}

impl Prospect {
    /// What the authority alone does not tell of a path on the host: why it is not hidden although
    /// its name says that it holds a secret.
    #[must_use]
    pub fn note(&self, host: &Path) -> Option<&'static str> {
        let is_shown = self.tracked.same.contains(host);
        is_shown.then_some(
            "its name would hide it, but git has this very content, and the inside reads what git \
             has",
        )
    }
}

/// Looks at what a run would have here and now.
///
/// # Errors
/// As for the start of a run.
pub fn prospect(
    view: &View,
    settings: &Settings,
    workspace: &Workspace,
    places: &Places,
) -> Result<Prospect, RunError> {
    let state = SessionState::create(places).map_err(RunError::System)?;
    let over = workspace.under_view(settings);
    let shadows = shadow::find(settings, workspace)?;
    let own = Own::find(places).map_err(RunError::System)?;
    let authority = view.authority()?;
    refuse(&authority, &own, settings, places)?;
    generated::refuse(&authority)?;
    let mut guard = Guard::new(state.private(), state.id(), over, shadows, Arc::new(own));
    guard.make().map_err(RunError::System)?;
    let (uid, gid) = inside_ids();
    let mut files = userland::generated(uid, gid, None).map_err(RunError::path)?;
    files.extend(guard.entries(workspace.root.as_path(), places)?);
    let generated = Generated::take_out(&mut files, &authority, over)?;
    guard.put_over(generated);
    let restrictions = guard.find(&authority, settings, places)?;
    Ok(Prospect { authority: view.restricted(restrictions)?, tracked: guard.tracked })
}
