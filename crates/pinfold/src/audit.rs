//! `pinfold audit`.

use std::collections::{HashSet, VecDeque};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand, ValueEnum};
use pinfold_hindsight::export::{self, Source};
use pinfold_host::audit::{self, Reader, Verified};
use pinfold_host::directories::Places;
use pinfold_host::session_id::SessionId;
use pinfold_policy::limits::WallTime;
use pinfold_terminal::notify;
use serde_json::{Value, json};

use crate::cli::Output;
use crate::completions;
use crate::exit::Failure;
use crate::print::{self, say};

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    command: Option<AuditCommand>,
    #[command(flatten)]
    output: Output,
    /// Print each record as one line of JSON in another program's format
    #[arg(long, value_enum, conflicts_with = "json")]
    format: Option<Format>,
    /// Show only the records of sessions with this name, or whose ids begin so
    #[arg(long, value_name = "ID", add = completions::live())]
    session: Option<String>,
    /// Show only records of the last hours or days, such as 90m, 12h or 2d
    #[arg(long, value_name = "DURATION")]
    since: Option<WallTime>,
    /// Show only the last records, so many of them
    #[arg(long, short = 'n', value_name = "COUNT")]
    lines: Option<usize>,
    /// Keep showing records as they are written
    #[arg(long, short)]
    follow: bool,
}

/// The format of a record for other programs.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// An event of the Open Cybersecurity Schema Framework 1.3
    Ocsf,
    /// A request of the OpenTelemetry protocol's logs, for a collector
    Otlp,
}

/// How records are printed.
enum Style {
    Text,
    Json,
    Export(Format, Source),
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check that no record was changed, removed or put in between
    Verify(VerifyArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    output: Output,
    /// A chain that was printed at an earlier time: check that the log still has everything up to it
    #[arg(long, value_name = "CHAIN")]
    contains: Option<String>,
}

pub(crate) fn run(args: &AuditArgs) -> Result<ExitCode, Failure> {
    let places = Places::find().map_err(|error| Failure::places(error).plain())?;
    match &args.command {
        Some(AuditCommand::Verify(verify)) => check(&places, verify),
        None => show_all(&places, args),
    }
}

fn show_all(places: &Places, args: &AuditArgs) -> Result<ExitCode, Failure> {
    let mut reader = Reader::open(&places.state).map_err(Failure::new)?;
    let style = Style::of(args);
    let from = args.since.map(|since| SystemTime::now() - since.duration());
    let mut meant = args.session.as_deref().map(Meant::new);
    let mut is_wanted = |record: &Value| {
        meant.as_mut().is_none_or(|meant| meant.has(record))
            && from.is_none_or(|from| time_of(record).is_none_or(|time| time >= from))
    };
    let mut last = VecDeque::new();
    let mut none_shown = true;
    while let Some(record) = next(reader.as_mut())? {
        if !is_wanted(&record) {
            continue;
        }
        none_shown = false;
        match args.lines {
            None => style.show(&record),
            Some(most) => {
                last.push_back(record);
                if last.len() > most {
                    last.pop_front();
                }
            }
        }
    }
    last.iter().for_each(|record| style.show(record));
    if !args.follow {
        if none_shown && matches!(style, Style::Text) {
            notify!("pinfold: no records");
        }
        return Ok(ExitCode::SUCCESS);
    }
    loop {
        std::thread::sleep(LOOK);
        if reader.is_none() {
            reader = Reader::open(&places.state).map_err(Failure::new)?;
        }
        while let Some(record) = next(reader.as_mut())? {
            if is_wanted(&record) {
                style.show(&record);
            }
        }
    }
}

/// The sessions that are meant by a name, or by the beginning of their ids.
struct Meant<'a> {
    by: &'a str,
    is_id: bool,
    /// Those of this name that have begun so far.
    named: HashSet<String>,
}

impl<'a> Meant<'a> {
    fn new(by: &'a str) -> Self {
        Self { by, is_id: SessionId::could_begin(by), named: HashSet::new() }
    }

    /// Returns whether a record is of one of them. The record of a session's beginning, which has its name, comes first.
    fn has(&mut self, record: &Value) -> bool {
        let Some(session) = record["session"].as_str() else { return false };
        if record["event"] == "session" && record["name"] == self.by {
            self.named.insert(session.to_owned());
        }
        self.is_id && session.starts_with(self.by) || self.named.contains(session)
    }
}

fn next(reader: Option<&mut Reader>) -> Result<Option<Value>, Failure> {
    reader.map_or(Ok(None), Reader::next_record).map_err(Failure::new)
}

/// Returns when something was recorded. A record that does not say so is shown.
fn time_of(record: &Value) -> Option<SystemTime> {
    record["time"].as_str().and_then(|time| humantime::parse_rfc3339(time).ok())
}

impl Style {
    fn of(args: &AuditArgs) -> Self {
        match args.format {
            Some(format) => {
                let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
                Self::Export(format, Source { version: env!("CARGO_PKG_VERSION"), host })
            }
            None if args.output.json => Self::Json,
            None => Self::Text,
        }
    }

    fn show(&self, record: &Value) {
        let line = match self {
            Self::Text => line_of(record),
            Self::Json => record.to_string(),
            Self::Export(Format::Ocsf, source) => export::ocsf(record, source).to_string(),
            Self::Export(Format::Otlp, source) => export::otlp(record, source).to_string(),
        };
        say!("{}", print::plain(&line));
    }
}

/// Returns a record as a line for people.
fn line_of(record: &Value) -> String {
    let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let rest = record
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| !matches!(key.as_str(), "time" | "session" | "event" | "chain"));
    let details: Vec<String> = rest.map(|(key, value)| format!("{key}={}", brief(value))).collect();
    [text("time"), text("session"), text("event"), details.join(" ")].join(" ")
}

/// Lists of grants are for `--json`; a line for people says how many there are.
fn brief(value: &Value) -> String {
    match value {
        Value::Array(items) if items.iter().any(Value::is_object) => items.len().to_string(),
        other => other.to_string(),
    }
}

fn check(places: &Places, args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let wanted = args.contains.as_deref().map(str::to_ascii_lowercase);
    let found = audit::verify(&places.state, wanted.as_deref()).map_err(Failure::new)?;
    let is_missing = wanted.is_some() && !found.has_wanted;
    if args.output.json {
        print::json(&json!({
            "records": found.records,
            "unchained": found.unchained,
            "broken": found.broken,
            "beginsLate": found.begins_late,
            "chain": found.last,
            "contains": wanted.is_some().then_some(found.has_wanted),
        }))?;
    } else {
        found.broken.is_none().then(|| report(&found));
    }
    if let Some(number) = found.broken {
        let what = format!("record {number} of the audit log does not follow from those before it");
        return Err(Failure::new(what).hint(Some(format!(
            "`pinfold audit --json | sed -n {number}p` shows it; what comes after it proves nothing"
        ))));
    }
    if is_missing {
        return Err(Failure::new("no record of the audit log has this chain")
            .hint(Some("records were removed or changed since it was printed".to_owned())));
    }
    Ok(ExitCode::SUCCESS)
}

fn report(found: &Verified) {
    let Some(chain) = &found.last else {
        say!("no records with a chain");
        return;
    };
    say!("{} records follow from each other", found.records - found.unchained);
    if found.unchained > 0 {
        say!("{} before them have no chain: an older pinfold wrote them", found.unchained);
    }
    if found.begins_late {
        say!("older ones were removed when they were old and many");
    }
    say!("chain: {chain}");
}
