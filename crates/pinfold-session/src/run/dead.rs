//! What sessions left whose supervisor was killed, or had no time.

use std::io;
use std::path::{Path, PathBuf};

use pinfold_git::settled::Settled;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::AfterDead;
use pinfold_protect::patience::Patience;
use pinfold_terminal::notify;
use pinfold_workspace::guard::{settle_dead, shares};

use super::Request;

/// Settles what a dead session left, before this one looks at anything.
///
/// # Errors
/// There was no time for all of it, and this session gets some of what that one could write.
pub(super) fn settle_before(
    dead: &SessionId,
    private: &Path,
    request: &Request,
    granted: &[PathBuf],
) -> io::Result<AfterDead> {
    let is_shared = shares(private, granted);
    let patience = if is_shared { Patience::at_start() } else { Patience::at_end() };
    let settled = settle_dead(dead, private, &request.settings, &request.places, &patience);
    for note in settled.iter().flat_map(Settled::notes) {
        notify!("pinfold: after a session that was killed: {note}");
    }
    match settled.is_some_and(|settled| settled.is_cut) {
        false => Ok(AfterDead::Settled),
        true if !is_shared => Ok(AfterDead::Waits),
        true => Err(io::Error::other(format!(
            "there was no time to look at all that session {dead} left here; start again to go on \
             with it"
        ))),
    }
}
