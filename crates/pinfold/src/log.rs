//! `pinfold logs`.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pinfold_host::audit::Reader;
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use pinfold_host::sessions::{is_live, names};
use pinfold_session::detach;
use pinfold_terminal::colours::Colours;
use pinfold_terminal::notify;

use crate::completions;
use crate::exit::Failure;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// The session, by its name or the beginning of its id
    #[arg(add = completions::logged())]
    session: String,
    /// Keep showing output until the session ends
    #[arg(long, short)]
    follow: bool,
}

/// Shows the log of a session that was detached: as it was written, but to a terminal text and colours
/// alone.
pub(crate) fn logs(args: &LogsArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    let session = logged(&places, &args.session)?;
    let path = detach::log_of(&places, &session);
    let read = |error: io::Error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            pinfold_host::sys::die_of_broken_pipe();
        }
        Failure::new(format!("cannot show {}: {error}", path.display()))
    };
    let mut log = File::open(&path).map_err(read)?;
    let stdout = std::io::stdout().lock();
    if !stdout.is_terminal() {
        return follow(args, &places, &session, &mut log, stdout).map_err(read);
    }
    let mut colours = Colours::new(stdout);
    let followed = follow(args, &places, &session, &mut log, &mut colours);
    colours.end().and(followed).map_err(read)
}

/// Writes what there is, and what comes until the session ends if that is asked for.
fn follow(
    args: &LogsArgs,
    places: &Places,
    session: &SessionId,
    log: &mut File,
    mut out: impl Write,
) -> io::Result<ExitCode> {
    let mut was_live = false;
    loop {
        // What it wrote before it ended is there after it has.
        let goes_on = args.follow && is_live(places, session.as_str());
        was_live |= goes_on;
        io::copy(log, &mut out)?;
        out.flush()?;
        if !goes_on {
            break;
        }
        std::thread::sleep(LOOK);
    }
    if was_live && !has_ended(places, session)? {
        notify!("pinfold: session {session} was killed");
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a session has reported its end.
fn has_ended(places: &Places, session: &SessionId) -> io::Result<bool> {
    let Some(mut records) = Reader::open(&places.state)? else { return Ok(false) };
    while let Some(record) = records.next_of(|id| id == session.as_str())? {
        if record["event"] == "end" {
            return Ok(true);
        }
    }
    Ok(false)
}

fn logged(places: &Places, meant: &str) -> Result<SessionId, Failure> {
    let is_called = |name: &str| name == meant && !SessionId::could_begin(meant);
    let called = names(places).into_iter().find(|(_, name)| is_called(name)).map(|(id, _)| id);
    let begin = called.as_deref().unwrap_or(meant);
    // A name may have been given again: it means the session that lives, and then the last one.
    let ended = || detach::called(places, meant);
    let mut found = detach::logged(places);
    found.retain(|session| session.as_str().starts_with(begin));
    match found.as_slice() {
        [session] => Ok(session.clone()),
        [] => ended().ok_or_else(|| {
            Failure::no_session(format!("no detached session {meant} has a log")).hint(Some(
                "`pinfold run --detach` starts one; `pinfold ps` shows those that run".to_owned(),
            ))
        }),
        all => {
            let all: Vec<&str> = all.iter().map(SessionId::as_str).collect();
            Err(Failure::new("more than one session is meant")
                .hint(Some(format!("name one of these: {}", all.join(", ")))))
        }
    }
}
