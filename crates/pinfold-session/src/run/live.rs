//! The masks and the view of a session, from the moment that its sandbox is complete.

use std::io;
use std::os::fd::OwnedFd;

use pinfold_boundary::namespace::LiveView;
use pinfold_boundary::{Cover, Inside};

use crate::broker::Ground;
use crate::door::Opened;
use crate::masks::{Kept, Masks};
use crate::refresh::Refresh;
use crate::workspace::Workspace;

/// What a session has before its command starts.
pub(super) struct Furnished {
    pub(super) opened: Opened,
    /// Where the sandbox asks for commands on the host, if it can.
    pub(super) asked: Option<(OwnedFd, Ground)>,
    pub(super) live: Live,
    /// The view of the workspace, if it has one.
    pub(super) view: Option<LiveView>,
}

/// The masks of a session, and the mount namespace that they are in.
pub(super) struct Live {
    pub(super) masks: Vec<Cover>,
    pub(super) mounts: Option<OwnedFd>,
}

/// Has the view refreshed when the host changes the workspace.
///
/// # Errors
/// Returns the error of starting a thread.
pub(super) fn refresh(
    view: Option<LiveView>,
    workspace: &Workspace,
) -> io::Result<Option<Refresh>> {
    view.map(|view| Refresh::start(view, workspace.root.as_path())).transpose()
}

/// Has the masks kept, where their namespace can be joined. Nothing runs in the sandbox yet.
///
/// # Errors
/// A descriptor that cannot be had.
pub(super) fn keep(masks: Masks, live: Live, inside: &mut Inside) -> io::Result<Option<Kept>> {
    let Live { masks: covers, mounts } = live;
    let mounts = inside.take_engine_mounts().unwrap_or(mounts);
    let Some(mounts) = mounts.filter(|_| !covers.is_empty()) else { return Ok(None) };
    let kept = masks.keep(covers, &mounts, inside.init.try_clone()?);
    if let Err(error) = &kept {
        tell!(
            "pinfold: note: masks that fall off when you save a masked file stay off in this run \
             ({error})"
        );
    }
    Ok(kept.ok())
}
