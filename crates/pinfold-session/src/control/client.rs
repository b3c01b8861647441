//! Who asks a live session for something.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_host::Refusal;
use pinfold_host::directories::Places;
use pinfold_host::ipc::{self, Json};
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions;
use pinfold_host::suspended;
use pinfold_wire::Channel;

use super::NAME;
use super::message::{Answer, Change, Request, RulesNow};
use crate::outcome::RunError;

/// How long a busy session may take to take notice.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks a live session for a change of its rules.
///
/// # Errors
/// Returns an error if there is no such session, more than one, or what the session answers.
pub fn change(
    places: &Places,
    session: Option<&str>,
    change: &Change,
) -> Result<RulesNow, RunError> {
    let channel = find(places, session)?;
    send(&channel, Request::Change(change.clone()))?;
    match receive(&channel)? {
        Answer::Rules(rules) => Ok(rules),
        answer => Err(refused(answer)),
    }
}

/// Ends a session as a signal would, kills what is left after a time, and waits until it has
/// cleaned up.
///
/// # Errors
/// Returns an error if there is no such session, or more than one.
pub fn stop(places: &Places, session: &str, grace: Duration) -> Result<(), RunError> {
    if let [path] = meant(places, Some(session))?.as_slice() {
        // Others may have taken all places to connect to it.
        suspended::wake(places, &name(path));
    }
    let (name, channel) = named(places, Some(session))?;
    let grace = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    send(&channel, Request::Stop { grace })?;
    suspended::keep_awake(&channel);
    match channel.receive::<Json<Answer>>() {
        Ok(Some(received)) => Err(refused(received.message.0)),
        Ok(None) | Err(_) => sessions::wait_for_end(places, &name).map_err(RunError::System),
    }
}

/// Returns the sessions that can be asked for something, each with what a user calls it.
#[must_use]
pub fn reachable(places: &Places) -> Vec<(String, Option<String>)> {
    let private = places.state.join("private");
    let names: HashMap<String, String> = sessions::names(places).into_iter().collect();
    let live = sessions::live_sessions(places).into_iter();
    let answers = live.filter(|session| private.join(session).join(NAME).exists());
    answers.map(|session| (session.clone(), names.get(&session).cloned())).collect()
}

/// Returns a connection on which to speak of what waits for a user's answer in a session, with the session's name.
///
/// # Errors
/// Returns the errors of [`find`].
pub(super) fn approvals(
    places: &Places,
    session: Option<&str>,
) -> Result<(String, Channel), RunError> {
    let found = named(places, session)?;
    suspended::goes_on(&found.1)?;
    send(&found.1, Request::Approvals)?;
    Ok(found)
}

/// Returns the same for a session that may be suspended, which answers when it goes on.
///
/// # Errors
/// Returns an error if there is no such session.
pub(super) fn approvals_in_time(places: &Places, session: &str) -> Result<Channel, RunError> {
    let channel = named(places, Some(session))?.1;
    send(&channel, Request::Approvals)?;
    Ok(channel)
}

/// Returns a connection to the session that is meant: the one that is called so, or whose name begins
/// so, or the only one.
///
/// # Errors
/// Returns an error if there is no such session, or more than one; one that is suspended, which would
/// answer nobody.
pub(super) fn find(places: &Places, session: Option<&str>) -> Result<Channel, RunError> {
    let channel = named(places, session)?.1;
    suspended::goes_on(&channel)?;
    Ok(channel)
}

/// Returns the same with its name.
///
/// # Errors
/// Returns an error if there is no such session, or more than one; one that takes no more connections.
pub(super) fn named(places: &Places, session: Option<&str>) -> Result<(String, Channel), RunError> {
    let mut found: Vec<(String, Channel)> = Vec::new();
    for path in meant(places, session)? {
        match ipc::connect(&path, NAME, PATIENCE) {
            Ok(channel) => found.push((name(&path), channel)),
            Err(error) if has_no_descriptor(&error) => return Err(RunError::System(error)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                suspended::session_goes_on(places, &name(&path))?;
                return Err(no_answer(&name(&path)));
            }
            // It has ended.
            Err(_) => {}
        }
    }
    match (found.len(), session) {
        (1, _) => Ok(found.remove(0)),
        (0, Some(session)) => {
            let refusal = Refusal::new(format!("no live session {session}"));
            let hint = "`pinfold ps` shows those that run".to_owned();
            Err(RunError::NoSession(refusal.with_hint(Some(hint))))
        }
        (0, None) => Err(RunError::NoSession(Refusal::new("no live session"))),
        (_, _) => {
            let names: Vec<String> = found.into_iter().map(|(name, _)| name).collect();
            let hint = format!("name one of these: {}", names.join(", "));
            Err(RunError::refused("more than one live session is meant", Some(hint)))
        }
    }
}

/// Returns the private directories of the sessions that may be meant, dead ones included.
fn meant(places: &Places, session: Option<&str>) -> Result<Vec<PathBuf>, RunError> {
    if session.is_some_and(str::is_empty) {
        let hint = "`pinfold ps` shows those that run".to_owned();
        return Err(RunError::refused("a session has a name", Some(hint)));
    }
    let all = match std::fs::read_dir(places.state.join("private")) {
        Err(error) if has_no_descriptor(&error) => return Err(RunError::System(error)),
        all => all,
    };
    let all = all.into_iter().flatten().flatten().map(|entry| entry.path());
    // What could be an id is never a name.
    let named = session.filter(|session| !SessionId::could_begin(session));
    let called = named.and_then(|session| {
        let mut names = sessions::names(places).into_iter();
        names.find_map(|(id, called)| (called == session).then_some(id))
    });
    let begin = called.as_deref().or(session);
    Ok(all.filter(|path| begin.is_none_or(|begin| name(path).starts_with(begin))).collect())
}

/// Returns whether it is the caller who cannot look.
fn has_no_descriptor(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

fn name(private: &Path) -> String {
    private.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub(super) fn send(channel: &Channel, request: Request) -> Result<(), RunError> {
    channel.send(&Json(request), &[]).map_err(|_| lost(channel))
}

/// Returns why a session takes nothing any more: it may have said so before it closed the connection.
pub(super) fn lost(channel: &Channel) -> RunError {
    match channel.receive::<Json<Answer>>() {
        Ok(Some(received)) => refused(received.message.0),
        Ok(None) | Err(_) => gone(),
    }
}

pub(super) fn receive(channel: &Channel) -> Result<Answer, RunError> {
    match channel.receive::<Json<Answer>>() {
        Ok(Some(received)) => Ok(received.message.0),
        Ok(None) | Err(_) => Err(gone()),
    }
}

/// Returns the error behind an answer.
pub(super) fn refused(answer: Answer) -> RunError {
    match answer {
        Answer::Error(why) => Refusal::from(why).into(),
        _ => RunError::refused("the session answers something else", None),
    }
}

/// Returns that a session gives no answer: its supervisor is frozen or traced, or it is about to end.
pub(super) fn no_answer(session: &str) -> RunError {
    let hint =
        format!("`pinfold wait {session}` waits for its end, `pinfold ps` shows whether it lives");
    RunError::refused(format!("session {session} does not answer"), Some(hint))
}

pub(super) fn gone() -> RunError {
    RunError::refused("the session has ended", None)
}
