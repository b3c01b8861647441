//! `pinfold ps`.

use std::collections::HashSet;
use std::process::ExitCode;

use clap::Args;
use pinfold_host::Host;
use pinfold_host::audit::Reader;
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_host::sessions::{live_sessions, names};
use pinfold_policy::path::Escaped;
use pinfold_terminal::notify;
use pinfold_workspace::review::Review;
use serde::Serialize;

use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, say};

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
    /// What a person calls it.
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
    say!(
        "{:<12}  {:<12}  {:<9}  {:<20}  {:<30}  {:<20}  COMMAND",
        "SESSION",
        "NAME",
        "STATE",
        "STARTED",
        "WORKSPACE",
        "HANDLED BY"
    );
    for row in rows {
        let name = row.name.as_deref().unwrap_or("-");
        say!(
            "{:<12}  {name:<12}  {:<9}  {:<20}  {:<30}  {:<20}  {}",
            row.session,
            row.state,
            row.started,
            row.workspace,
            row.handled_by.join(" + "),
            row.command
        );
    }
    Ok(ExitCode::SUCCESS)
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
            let state = if live.contains(session) { "runs" } else { "killed" };
            rows.push(Row {
                session: session.to_owned(),
                name: None,
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
