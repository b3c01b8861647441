//! `pinfold approvals`: what sandboxes ask for, and answers.

mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pinfold_ask::{Answer, Pending, SavedHost, SavedHosts, Subject};
use pinfold_host::directories::Places;
use pinfold_host::sessions::{is_live, live_sessions};
use pinfold_hostexec::{SavedRule, SavedRules};
use pinfold_session::control::{Attendance, no_door};
use pinfold_terminal::notify;
use serde::Serialize;

use crate::exit::Failure;
use crate::print::{self, say};

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    /// Show only this session, by the beginning of its id
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Keep showing requests as they come, of all sessions until it is interrupted. They wait for an answer
    #[arg(long)]
    watch: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Approve a request, by default once
    Approve {
        /// The request: its number, or SESSION:NUMBER
        id: String,
        /// Approve the same request for the rest of the session
        #[arg(long = "session")]
        for_session: bool,
        /// Approve the same request in this repository always, and save a rule
        #[arg(long, conflicts_with = "for_session")]
        always: bool,
    },
    /// Deny a request
    Deny {
        /// The request: its number, or SESSION:NUMBER
        id: String,
        /// The reason to show in the sandbox
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List saved rules
    Rules,
    /// Remove a saved rule
    Forget {
        /// Its number in the list
        number: usize,
    },
}

/// A request with the session that it is of.
#[derive(Debug, Serialize)]
struct Row<'a> {
    session: &'a str,
    id: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    connection: Option<ConnectionRow<'a>>,
    details: &'a [String],
    rule: Option<&'a str>,
}

/// A connection that waits.
#[derive(Debug, Serialize)]
struct ConnectionRow<'a> {
    host: &'a str,
    port: u16,
    protocol: &'a str,
}

pub(crate) fn approvals(args: ApprovalsArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    match &args.what {
        None if args.watch => watch::watch(&args, &places),
        None => list(&args, &places),
        Some(What::Approve { id, for_session, always }) => {
            let answer = match (for_session, always) {
                (_, true) => Answer::Always,
                (true, _) => Answer::Session,
                _ => Answer::Once,
            };
            self::answer(&args, &places, id, answer)
        }
        Some(What::Deny { id, reason }) => {
            self::answer(&args, &places, id, Answer::Deny { reason: reason.clone() })
        }
        Some(What::Rules) => rules(&args, &places),
        Some(What::Forget { number }) => forget(*number, &places),
    }
}

fn list(args: &ApprovalsArgs, places: &Places) -> Result<ExitCode, Failure> {
    let (mut none_waits, mut is_whole) = (true, true);
    for session in sessions(args, places) {
        let Some(waiting) = pending(args, places, &session)? else {
            is_whole = false;
            continue;
        };
        for pending in waiting {
            show(args, &session, &pending)?;
            none_waits = false;
        }
    }
    if none_waits && is_whole && !args.json {
        notify!("pinfold: no requests wait");
    }
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns what waits in a session, or nothing after a note that it cannot be asked. One that ends now has nothing, and most
/// have no such door; of the one that was named both are worth saying.
///
/// # Errors
/// Returns why the one that was named cannot be asked.
fn pending(
    args: &ApprovalsArgs,
    places: &Places,
    session: &str,
) -> Result<Option<Vec<Pending>>, Failure> {
    match Attendance::list(places, Some(session)) {
        Ok(Some(pending)) => Ok(Some(pending)),
        Ok(None) if args.session.is_some() => Err(Failure::of_session(no_door())),
        Ok(None) => Ok(Some(Vec::new())),
        Err(error) if args.session.is_some() => Err(Failure::of_session(error)),
        Err(_) if !is_live(places, session) => Ok(Some(Vec::new())),
        Err(error) => {
            notify!("pinfold: requests of session {session} are not shown: {error}");
            Ok(None)
        }
    }
}

fn sessions(args: &ApprovalsArgs, places: &Places) -> Vec<String> {
    match &args.session {
        Some(session) => vec![session.clone()],
        None => {
            let mut all: Vec<String> = live_sessions(places).into_iter().collect();
            all.sort();
            all
        }
    }
}

fn show(args: &ApprovalsArgs, session: &str, pending: &Pending) -> Result<(), Failure> {
    let (mut executable, mut command, mut cwd, mut connection) = (None, None, None, None);
    let said = match &pending.subject {
        Subject::Command { executable: name, command: line, cwd: directory } => {
            (executable, command) = (Some(name.as_str()), Some(line.as_str()));
            cwd = Some(directory.as_str());
            [line.clone(), format!("in {directory}")]
        }
        Subject::Connection { host, port, protocol } => {
            connection = Some(ConnectionRow { host, port: *port, protocol });
            [format!("connect to {host}:{port}"), format!("by {protocol}")]
        }
    };
    if args.json {
        let row = Row {
            session,
            id: pending.id,
            executable,
            command,
            cwd,
            connection,
            details: &pending.details,
            rule: pending.rule.as_deref(),
        };
        print::json_line(&row)?;
        return Ok(());
    }
    let [first, rest @ ..] = &said;
    say!("{session}:{}  {first}", pending.id);
    for line in rest.iter().chain(&pending.details) {
        say!("    {line}");
    }
    Ok(())
}

fn answer(
    args: &ApprovalsArgs,
    places: &Places,
    id: &str,
    answer: Answer,
) -> Result<ExitCode, Failure> {
    let (session, number) = match id.rsplit_once(':') {
        Some((session, number)) => (Some(session.to_owned()), number),
        None => (args.session.clone(), id),
    };
    let number: u64 = number.parse().map_err(|_| {
        Failure::new(format!("{id} is not the number of a request"))
            .hint(Some("`pinfold approvals` shows those that wait".to_owned()))
    })?;
    let session = match session {
        Some(session) => Some(session),
        None => the_one_that_asks(args, places, number)?,
    };
    let by = "pinfold approvals";
    Attendance::answer(places, session.as_deref(), number, answer, by)
        .map_err(Failure::of_session)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the session that a number alone means.
fn the_one_that_asks(
    args: &ApprovalsArgs,
    places: &Places,
    number: u64,
) -> Result<Option<String>, Failure> {
    let mut found = Vec::new();
    for session in sessions(args, places) {
        if pending(args, places, &session)?.iter().flatten().any(|one| one.id == number) {
            found.push(session);
        }
    }
    match found.len() {
        0 => Err(Failure::new(format!("no request {number} waits for an answer"))),
        1 => Ok(found.pop()),
        _ => {
            let all: Vec<String> = found.iter().map(|it| format!("{it}:{number}")).collect();
            Err(Failure::new(format!("{} sessions have a request {number}", found.len()))
                .hint(Some(format!("say {}", all.join(" or ")))))
        }
    }
}

/// A saved rule of either kind.
enum Saved {
    Command(SavedRule),
    Host(SavedHost),
}

/// Returns all saved rules, in the order in which they are numbered.
fn saved(places: &Places) -> Result<Vec<Saved>, Failure> {
    let commands = SavedRules::new(places).all().map_err(Failure::new)?;
    let hosts = SavedHosts::new(places).all().map_err(Failure::new)?;
    let hosts = hosts.into_iter().map(Saved::Host);
    Ok(commands.into_iter().map(Saved::Command).chain(hosts).collect())
}

fn rules(args: &ApprovalsArgs, places: &Places) -> Result<ExitCode, Failure> {
    let rules = saved(places)?;
    if args.json {
        let value = |rule: &Saved| match rule {
            Saved::Command(rule) => serde_json::to_value(rule),
            Saved::Host(host) => serde_json::to_value(host),
        };
        let values: Result<Vec<_>, _> = rules.iter().map(value).collect();
        print::json(&values.map_err(Failure::new)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if rules.is_empty() {
        notify!("pinfold: no rules are saved");
    }
    for (number, rule) in rules.iter().enumerate() {
        match rule {
            Saved::Command(rule) => say!("{}  {rule}", number + 1),
            Saved::Host(host) => say!("{}  {host}", number + 1),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn forget(number: usize, places: &Places) -> Result<ExitCode, Failure> {
    let rules = saved(places)?;
    let rule = number.checked_sub(1).and_then(|index| rules.get(index)).ok_or_else(|| {
        Failure::new(format!("no rule {number}"))
            .hint(Some("`pinfold approvals rules` lists them".to_owned()))
    })?;
    match rule {
        Saved::Command(rule) => SavedRules::new(places).remove(rule).map(drop),
        Saved::Host(host) => SavedHosts::new(places).remove(host),
    }
    .map_err(Failure::new)?;
    Ok(ExitCode::SUCCESS)
}
