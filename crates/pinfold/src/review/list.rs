//! `pinfold ps`.

use std::collections::HashSet;
use std::fmt;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Args;
use pinfold_host::Host;
use pinfold_host::audit::Reader;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::sessions::{live_sessions, names};
use pinfold_host::suspended::is_suspended;
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_workspace::review::Review;
use serde::Serialize;

use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, Ago};

/// Ended sessions that are listed at most.
const MOST_ENDED: usize = 20;
/// The state of an ended session whose changes wait.
const TO_REVIEW: &str = "to review";

#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also list ended sessions: those whose changes wait, and the last twenty
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Serialize)]
struct Row {
    session: String,
    /// What a user calls it.
    name: Option<String>,
    state: String,
    /// How it ended, if it has.
    status: Option<u8>,
    started: String,
    workspace: String,
    command: String,
    /// The boundary and the wrappers that handled its last launch.
    handled_by: Vec<String>,
}

pub(crate) fn ps(args: &PsArgs, launcher: &Launcher) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    Review::go_on_with_all(Host { places: &places, launcher });
    let live = live_sessions(&places);
    let mut rows = from_audit(&places, &live, args.all)?;
    for (session, name) in names(&places) {
        let row = rows.iter_mut().find(|row| row.session == session);
        row.into_iter().for_each(|row| row.name = Some(name.clone()));
    }
    if args.all {
        for ended in Review::sessions(&places)?.into_iter().filter(|summary| !summary.is_live) {
            if let Some(row) = rows.iter_mut().find(|row| row.session == ended.session) {
                row.state = TO_REVIEW.to_owned();
                continue;
            }
            rows.push(Row {
                session: ended.session,
                name: None,
                state: TO_REVIEW.to_owned(),
                status: None,
                started: humantime::format_rfc3339_seconds(ended.started).to_string(),
                workspace: Escaped(&ended.workspace).to_string(),
                command: Escaped(ended.command.as_ref()).to_string(),
                handled_by: Vec::new(),
            });
        }
    }
    if args.output.json {
        print::json(&rows)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rows.is_empty() {
        notify!("pinfold: no sessions{}", if args.all { "" } else { " run" });
        return Ok(ExitCode::SUCCESS);
    }
    print::put(format_args!("{}", Table(&rows, SystemTime::now())));
    Ok(ExitCode::SUCCESS)
}

/// The sessions as a table, with their starts as they are seen at a time.
struct Table<'a>(&'a [Row], SystemTime);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |f: &mut fmt::Formatter<'_>, cells: [&str; 7]| {
            let [session, name, state, started, workspace, handled_by, command] = cells;
            writeln!(
                f,
                "{session:<12}  {name:<12}  {state:<9}  {started:<12}  {workspace:<30}  \
                 {handled_by:<20}  {command}"
            )
        };
        line(f, ["SESSION", "NAME", "STATE", "STARTED", "WORKSPACE", "HANDLED BY", "COMMAND"])?;
        for row in self.0 {
            let name = row.name.as_deref().unwrap_or("-");
            let started = humantime::parse_rfc3339_weak(&row.started)
                .map_or("-".to_owned(), |time| Ago(time, self.1).to_string());
            let handled_by = row.handled_by.join(" + ");
            let Row { session, state, workspace, command, .. } = row;
            line(f, [session, name, state, &started, workspace, &handled_by, command])?;
        }
        Ok(())
    }
}

/// Returns what the audit log says of live sessions, and of the last ended ones if they are asked for.
fn from_audit(places: &Places, live: &HashSet<String>, all: bool) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    if live.is_empty() && !all {
        return Ok(rows);
    }
    let mut reader = Reader::open(&places.state).map_err(Failure::new)?;
    let is_meant = |session: &str| all || live.contains(session);
    while let Some(record) =
        reader.as_mut().map_or(Ok(None), |reader| reader.next_of(is_meant)).map_err(Failure::new)?
    {
        let Some(session) = record["session"].as_str() else { continue };
        let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
        if record["event"] == "session" {
            if let Some(first) = oldest_ended(&rows, live) {
                rows.remove(first);
            }
            let state = if !live.contains(session) {
                "killed"
            } else if is_suspended(places, session) {
                "suspended"
            } else {
                "runs"
            };
            rows.push(Row {
                session: session.to_owned(),
                name: record["name"].as_str().map(str::to_owned),
                state: state.to_owned(),
                status: None,
                started: text("time"),
                workspace: text("workspace"),
                command: String::new(),
                handled_by: vec![text("boundary")],
            });
        } else if record["event"] == "launch"
            && record["purpose"] == "command"
            && let Some(row) = rows.iter_mut().rev().find(|row| row.session == session)
        {
            let words = |key: &str| -> Vec<String> {
                let words = record[key].as_array().into_iter().flatten();
                words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
            };
            row.command = Escaped(words("argv").join(" ").as_ref()).to_string();
            row.handled_by = words("handled_by");
        } else if record["event"] == "end"
            && let Some(row) = rows.iter_mut().rev().find(|row| row.session == session)
        {
            row.status = record["status"].as_u64().and_then(|status| u8::try_from(status).ok());
            // One that is cleaning up is live.
            if let Some(status) = row.status.filter(|_| !live.contains(session)) {
                row.state = format!("ended {status}");
            }
        }
    }
    Ok(rows)
}

/// Returns the place of the oldest ended session if there are too many of them.
fn oldest_ended(rows: &[Row], live: &HashSet<String>) -> Option<usize> {
    let mut ended = (0..rows.len()).filter(|index| !live.contains(&rows[*index].session));
    let first = ended.next()?;
    (ended.count() + 1 >= MOST_ENDED).then_some(first)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn row(name: Option<&str>, state: &str, started: u64) -> Row {
        let started = UNIX_EPOCH + Duration::from_secs(started);
        Row {
            session: "0123456789ab".to_owned(),
            name: name.map(str::to_owned),
            state: state.to_owned(),
            status: None,
            started: humantime::format_rfc3339_seconds(started).to_string(),
            workspace: "/home/user/project".to_owned(),
            command: "claude".to_owned(),
            handled_by: ["namespace", "audit"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn table_shows_when_sessions_started_as_people_say_it() {
        let rows = [
            row(Some("night"), "runs", 1_000_000),
            row(None, "ended 0", 990_000),
            row(None, TO_REVIEW, 0),
        ];
        let now = UNIX_EPOCH + Duration::from_secs(1_000_042);
        insta::assert_snapshot!(Table(&rows, now));
    }
}
