//! `pinfold approvals --watch`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use pinfold_ask::{Happening, Watcher};
use pinfold_host::directories::Places;
use pinfold_host::io::timespec;
use pinfold_session::control::{Attendance, no_door, reachable};
use pinfold_terminal::notify;
use rustix::event::{PollFd, PollFlags};

use super::{ApprovalsArgs, show};
use crate::exit::Failure;
use crate::print::{self, say};

/// How soon a new session is seen. Its requests wait until then.
const LOOK: Duration = Duration::from_millis(250);

/// Shows the requests of one session until it ends, or of all sessions until the process ends.
pub(super) fn watch(args: &ApprovalsArgs, places: &Places) -> Result<ExitCode, Failure> {
    let Some(session) = &args.session else { return all(args, places) };
    let attendance =
        Attendance::watch(places, Some(session)).and_then(|found| found.ok_or_else(no_door));
    let attendance = attendance.map_err(Failure::of_session)?;
    notify!("pinfold: requests of {session} wait for an answer while this runs");
    while let Some(happening) = attendance.hear().map_err(Failure::of_session)? {
        say_happening(args, session, &happening)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn all(args: &ApprovalsArgs, places: &Places) -> Result<ExitCode, Failure> {
    let _watcher = Watcher::begin(places).map_err(Failure::new)?;
    notify!("pinfold: requests of all sessions wait for an answer while this runs");
    // A session whose sandbox can ask for nothing is kept as well: it is not asked again.
    let mut sessions: BTreeMap<String, Option<Attendance>> = BTreeMap::new();
    loop {
        let live: Vec<String> = reachable(places).into_iter().map(|(session, _)| session).collect();
        sessions.retain(|session, attendance| attendance.is_some() || live.contains(session));
        for session in live {
            // One that ends now is tried again as long as it lives. One that is suspended keeps nobody from the others.
            if !sessions.contains_key(&session)
                && let Ok(attendance) = Attendance::begin(places, &session)
            {
                sessions.insert(session, Some(attendance));
            }
        }
        for session in ready(&sessions).map_err(Failure::new)? {
            let Some(Some(attendance)) = sessions.get(&session) else { continue };
            match attendance.hear() {
                Ok(Some(Happening::NoDoor)) => drop(sessions.insert(session, None)),
                Ok(Some(happening)) => say_happening(args, &session, &happening)?,
                Ok(None) | Err(_) => drop(sessions.remove(&session)),
            }
        }
    }
}

/// Returns the sessions that report something, once there is one or it is time to look for others.
fn ready(sessions: &BTreeMap<String, Option<Attendance>>) -> std::io::Result<Vec<String>> {
    let attended = sessions.iter().filter_map(|(session, it)| Some((session, it.as_ref()?)));
    let (names, channels): (Vec<&String>, Vec<&Attendance>) = attended.unzip();
    let mut polled: Vec<PollFd<'_>> =
        channels.into_iter().map(|channel| PollFd::new(channel, PollFlags::IN)).collect();
    let patience = timespec(LOOK);
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&patience)))?;
    let is_ready = |polled: &PollFd<'_>| !polled.revents().is_empty();
    let ready = names.into_iter().zip(&polled).filter(|(_, polled)| is_ready(polled));
    Ok(ready.map(|(session, _)| session.clone()).collect())
}

fn say_happening(
    args: &ApprovalsArgs,
    session: &str,
    happening: &Happening,
) -> Result<(), Failure> {
    match happening {
        Happening::Asked(pending) => show(args, session, pending)?,
        Happening::Settled(id) if args.json => {
            print::json_line(&serde_json::json!({ "session": session, "settled": id }))?;
        }
        Happening::Settled(id) => say!("{session}:{id}  settled"),
        Happening::Done | Happening::Failed(_) | Happening::NoDoor => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
