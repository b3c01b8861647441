//! `pinfold wait`.

use std::io;
use std::process::ExitCode;
use std::sync::mpsc;

use clap::Args;
use pinfold_host::audit::Reader;
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::{is_live, live_sessions, names, wait_for_end};
use pinfold_policy::limits::WallTime;
use pinfold_session::detach;
use pinfold_terminal::notify;

use crate::completions;
use crate::exit::Failure;

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::live())]
    session: String,
    /// Stop waiting after this time, such as 90s or 2h, with status 124
    #[arg(long, value_name = "TIME")]
    timeout: Option<WallTime>,
}

/// Waits for the end of a session, and returns its command's status.
pub(crate) fn wait(args: &WaitArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let session = find(&places, &args.session)?;
    if is_live(&places, session.as_str()) && !ends_in_time(&places, &session, args.timeout)? {
        let error = format!("session {session} still runs");
        return Err(Failure::timeout(error).hint(Some(format!("`pinfold stop {session}` ends it"))));
    }
    match end_of(&places, &session).map_err(Failure::own)? {
        Some(End { status, limit }) => {
            if let Some(limit) = limit {
                notify!("pinfold: the {limit} limit ended the run");
            }
            Ok(ExitCode::from(status))
        }
        None => Err(Failure::own(format!("session {session} was killed, its status is unknown"))),
    }
}

/// How a session ended, from the audit log.
struct End {
    status: u8,
    limit: Option<String>,
}

/// Returns the session that is meant: a live one by its name or the beginning of its id, else the last
/// one that was called so, or one with records.
fn find(places: &Places, meant: &str) -> Result<SessionId, Failure> {
    let named = names(places).into_iter().find(|(_, name)| name == meant).map(|(id, _)| id);
    let begin = named.as_deref().unwrap_or(meant);
    let is_meant = |id: &str| SessionId::could_begin(begin) && id.starts_with(begin);
    let mut found: Vec<String> =
        live_sessions(places).into_iter().filter(|id| is_meant(id)).collect();
    if found.is_empty() {
        found.extend(called(places, meant).map_err(Failure::own)?);
    }
    if found.is_empty() {
        found = recorded(places, is_meant).map_err(Failure::own)?;
    }
    match found.as_slice() {
        [one] => SessionId::parse(one).ok_or_else(|| Failure::own("a damaged record of a session")),
        [] => Err(Failure::no_session(format!("no session {meant}"))
            .hint(Some("`pinfold ps --all` lists sessions".to_owned()))),
        all => Err(Failure::own("more than one session matches")
            .hint(Some(format!("name one of these: {}", all.join(", "))))),
    }
}

/// Returns the last session that was called so, by the audit log. Names of older ones are only in the logs of detached
/// sessions.
fn called(places: &Places, meant: &str) -> io::Result<Option<String>> {
    let mut last = None;
    if let Some(mut records) = Reader::open(&places.state)? {
        while let Some(record) = records.next_of(|_| true)? {
            if record["event"] == "session" && record["name"] == meant {
                last = record["session"].as_str().map(str::to_owned);
            }
        }
    }
    Ok(last.or_else(|| detach::called(places, meant).map(|id| id.to_string())))
}

/// Returns the sessions in the audit log whose ids match.
fn recorded(places: &Places, is_meant: impl Fn(&str) -> bool) -> io::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let Some(mut records) = Reader::open(&places.state)? else { return Ok(found) };
    while let Some(record) = records.next_of(&is_meant)? {
        let Some(id) = record["session"].as_str() else { continue };
        if found.last().is_none_or(|last| last != id) && !found.iter().any(|known| known == id) {
            found.push(id.to_owned());
        }
    }
    Ok(found)
}

/// Returns whether a session ends within a time.
fn ends_in_time(
    places: &Places,
    session: &SessionId,
    timeout: Option<WallTime>,
) -> Result<bool, Failure> {
    let Some(timeout) = timeout else {
        wait_for_end(places, session.as_str()).map_err(Failure::own)?;
        return Ok(true);
    };
    let (ended, end) = mpsc::channel();
    let (places, session) = (places.clone(), session.clone());
    let waits = move || drop(ended.send(wait_for_end(&places, session.as_str())));
    // It ends with this process.
    std::thread::Builder::new().spawn(waits).map_err(Failure::own)?;
    match end.recv_timeout(timeout.duration()) {
        Ok(ended) => ended.map(|()| true).map_err(Failure::own),
        Err(_) => Ok(false),
    }
}

/// Returns what a session recorded of its end.
fn end_of(places: &Places, session: &SessionId) -> io::Result<Option<End>> {
    let Some(mut records) = Reader::open(&places.state)? else { return Ok(None) };
    let mut end = None;
    while let Some(record) = records.next_of(|id| id == session.as_str())? {
        if record["event"] == "end" {
            let status = record["status"].as_u64().and_then(|status| u8::try_from(status).ok());
            let limit = record["limit"].as_str().map(str::to_owned);
            end = status.map(|status| End { status, limit });
        }
    }
    Ok(end)
}
