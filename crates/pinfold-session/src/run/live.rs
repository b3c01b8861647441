//! The masks and the view of a session, from the moment that its sandbox is complete.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use pinfold_boundary::{Inside, LiveView, Mask};
use pinfold_protect::masks::{Kept, Masks};
use pinfold_protect::refresh::{Hidden, Refresh};
use pinfold_terminal::notify;

use super::session::Session;
use crate::design::Design;

/// The masks of a session, and the mount namespace that they are in.
pub(super) struct Live {
    pub(super) masks: Vec<Mask>,
    pub(super) mounts: Option<OwnedFd>,
}

/// Has the view refreshed when the host changes the workspace, and new names of secrets masked.
///
/// # Errors
/// Returns the error of starting a thread.
pub(super) fn refresh(
    view: Option<LiveView>,
    Session { design: Design { guard, layer, .. }, request, .. }: &Session,
    masks: Vec<Mask>,
    kept: Option<&Kept>,
) -> io::Result<Option<Refresh>> {
    let of_layer = guard.newcomers(&request.settings.files).zip(layer.as_ref());
    let Some((view, (new, layer))) = view.zip(of_layer) else { return Ok(None) };
    Refresh::start(view, Hidden::new(new, layer.upper(), masks, kept)?).map(Some)
}

/// Has the masks kept, where their namespace can be joined. Nothing runs in the sandbox yet.
///
/// # Errors
/// Returns an error for a descriptor that is not available.
pub(super) fn keep(
    keeper: Masks,
    live: Live,
    inside: &mut Inside,
    view: Option<&Path>,
) -> io::Result<Option<Kept>> {
    let Live { masks, mounts } = live;
    let mounts = inside.take_engine_mounts().unwrap_or(mounts);
    let is_needed = view.is_some() || !masks.is_empty();
    let Some(mounts) = mounts.filter(|_| is_needed) else { return Ok(None) };
    // A mask in a view does not fall off.
    let is_live = |mask: &Mask| {
        let path = Path::new(OsStr::from_bytes(&mask.path));
        !view.is_some_and(|view| path.starts_with(view))
    };
    let has_live = masks.iter().any(is_live);
    let kept = keeper.keep(masks, &mounts, inside);
    if let Some(error) = kept.as_ref().err().filter(|_| has_live) {
        notify!(
            "pinfold: note: a hidden or protected file that you save on the host stays open to this \
             session from then on, since the helper that masks it again cannot join the sandbox \
             ({error}); work in a view (--workspace overlay), or move secrets out (`pinfold hide`)"
        );
    }
    Ok(kept.ok().flatten())
}
