//! What sessions left whose supervisor was killed, or had no time.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_engines::managed;
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::{
    AfterDead, SessionState, is_being_settled, live_sessions, wait_for_programs,
};
use pinfold_protect::patience::Patience;
use pinfold_terminal::notify;
use pinfold_workspace::guard::{settle_dead, shares};

use crate::boundaries;
use crate::outcome::RunError;
use crate::request::Request;

/// Between two looks at whether it is settled.
const STEP: Duration = Duration::from_millis(50);

/// Settles what dead sessions left, and waits for other starts that do in the directories of this one.
///
/// # Errors
/// Returns what is left could not be settled in time.
pub(super) fn clean_up_after_others(
    state: &mut SessionState,
    request: &Request,
    granted: &[PathBuf],
) -> Result<(), RunError> {
    let settle = |dead: &SessionId, private: &Path| settle_before(dead, private, request, granted);
    let written = boundaries::written(&request.settings, request.workspace.root.as_path());
    let sweep = |boundary: &str, dead: &str| {
        managed::sweep(&request.launcher, boundary, dead, &written);
    };
    state.clean_dead(&sweep, &settle).map_err(RunError::System)?;
    while wait_for_settlers(&request.places, granted).map_err(RunError::System)? {
        // The other start may have been ended.
        state.clean_dead(&sweep, &settle).map_err(RunError::System)?;
    }
    Ok(())
}

/// Waits for other starts that settle what a dead session left in one of these directories: to this one
/// the session seems to live. Returns whether there were any.
///
/// # Errors
/// Returns that there was no time.
fn wait_for_settlers(places: &Places, granted: &[PathBuf]) -> io::Result<bool> {
    let mut waited = false;
    let sessions =
        live_sessions(places).into_iter().filter_map(|session| SessionId::parse(&session));
    for session in sessions {
        let private = SessionState::private_of(places, &session);
        let is_settling = || is_being_settled(places, &session);
        if !is_settling() || !shares(&private, granted) {
            continue;
        }
        waited = true;
        let patience = Patience::at_start();
        while is_settling() {
            if patience.is_over() {
                return Err(io::Error::other(format!(
                    "another start still looks at what session {session} left here; start again when it is done"
                )));
            }
            std::thread::sleep(STEP);
        }
    }
    Ok(waited)
}

/// Settles what a dead session left, before this one looks at anything.
///
/// # Errors
/// Returns an error if there was no time for all of it, and this session gets some of what that one
/// could write.
fn settle_before(
    dead: &SessionId,
    private: &Path,
    request: &Request,
    granted: &[PathBuf],
) -> io::Result<AfterDead> {
    let is_shared = shares(private, granted);
    let patience = if is_shared { Patience::at_start() } else { Patience::at_end() };
    let Some(_programs) = wait_for_programs(private, &|| patience.is_over()) else {
        return if is_shared {
            Err(io::Error::other(format!(
                "git that session {dead} started is still at work here; start again when it is done"
            )))
        } else {
            Ok(AfterDead::Waits)
        };
    };
    let settled = settle_dead(dead, private, &request.settings, request.host(), &patience);
    for note in settled.notes() {
        notify!("pinfold: after a session that was killed: {}", note.text);
    }
    match settled.is_cut {
        false => Ok(AfterDead::Settled),
        true if !is_shared => Ok(AfterDead::Waits),
        true => Err(io::Error::other(format!(
            "there was no time to look at all that session {dead} left here; start again to go on \
             with it"
        ))),
    }
}
