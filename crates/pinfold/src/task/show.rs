//! `pinfold task show` and `pinfold task logs`.

use std::fs::File;
use std::io::{self, IsTerminal as _, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use clap::Args;
use pinfold_attempt::{Output as Outcome, Repository, landing_log_of, log_of};
use pinfold_cluster::{has_log, read_log};
use pinfold_host::Host;
use pinfold_host::directories::Places;
use pinfold_policy::count::counted;
use pinfold_policy::settings::Usd;
use pinfold_tasks::{Attempt, Landing, Task, TaskId, TaskSpec, to_stored};
use pinfold_terminal::colours::Colours;
use serde_json::{Value, json};

use super::find::{IdArgs, find, spec_of};
use super::list::{of_task, shown, system_time};
use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, Ago, say};
use crate::task_queue::TaskQueue;

/// How often a followed log is looked at.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    task: IdArgs,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    task: IdArgs,
    /// Keep showing output until the attempt ends
    #[arg(long, short)]
    follow: bool,
    /// Show this attempt instead of the last one
    #[arg(long, value_name = "NUMBER")]
    attempt: Option<u32>,
    /// Show what ran when the result was to land
    #[arg(long, conflicts_with_all = ["attempt", "follow"])]
    landing: bool,
}

/// Returns the result of a task that was accepted.
///
/// # Errors
/// Returns an error for a result that no worker of pinfold reports.
pub(super) fn outcome(attempts: &[Attempt], task: &Task) -> Result<Option<Outcome>, Failure> {
    let accepted = attempts.iter().find(|attempt| Some(attempt.number) == task.accepted);
    let completion = accepted.and_then(|attempt| attempt.completion.as_ref());
    let outcome = completion.map(|completion| serde_json::from_str(&completion.output));
    outcome.transpose().map_err(|error| {
        let id = super::find::short(task.id);
        Failure::new(format!("the queue holds an invalid result of task {id}: {error}"))
    })
}

pub(super) fn show(args: &ShowArgs, queue: &TaskQueue, host: Host<'_>) -> Result<(), Failure> {
    let places = host.places;
    let task = find(queue, &args.task.id)?;
    let (spec, attempts) = (spec_of(queue, task.id)?, queue.attempts(task.id)?);
    let landing = queue.landing(task.id)?;
    if args.output.json {
        let mut value = of_task(&task, landing.as_ref());
        match &spec {
            Ok(spec) => {
                value["asks"] = serde_json::from_str(&to_stored(spec)).map_err(Failure::new)?;
            }
            Err(error) => value["error"] = error.as_str().into(),
        }
        value["results"] =
            attempts.iter().map(|attempt| of_attempt(attempt, &task, places)).collect();
        let artifacts = queue.artifacts_of(task.id)?;
        let artifacts = artifacts.iter().map(|it| serde_json::from_str::<Value>(&it.to_string()));
        value["artifacts"] = artifacts.collect::<Result<_, _>>().map_err(Failure::new)?;
        return print::json(&value);
    }
    let now = SystemTime::now();
    let changed = Ago(system_time(task.updated_at), now);
    say!("{}  {}, changed {changed}", task.id, task.status);
    say!("{}", shown(&task.title));
    match &spec {
        Ok(spec) => asked(spec),
        Err(error) => say!("unreadable: {}", shown(error)),
    }
    if let Some(failure) = &task.failure {
        say!("failed:     {}: {}", shown(&failure.code), shown(&failure.message));
    }
    for attempt in &attempts {
        let worker = shown(&attempt.worker);
        say!("attempt {}:  {} by {worker}", attempt.number, attempt.status);
        for message in queue.messages(task.id, attempt.number, 0)? {
            let text: Value = serde_json::from_str(&message.payload).unwrap_or_default();
            say!("            {}", shown(text["text"].as_str().unwrap_or_default()));
        }
        if let Some(failure) = &attempt.failure {
            say!("            {}: {}", shown(&failure.code), shown(&failure.message));
        }
    }
    for artifact in queue.artifacts_of(task.id)? {
        let text = |name: &str| shown(&artifact.text_of(name).unwrap_or_default());
        let count =
            |name: &str| artifact.get(name).and_then(|it| it.as_count()).unwrap_or_default();
        let (kind, title, cid) = (text("kind"), text("title"), text("cid"));
        let (attempt, size) = (count("attemptN"), counted(count("sizeBytes"), "byte"));
        say!("artifact:   {title} ({kind}, {size}, attempt {attempt})");
        say!("            {cid}");
    }
    if let Some(outcome) = outcome(&attempts, &task)? {
        let repository = spec.as_ref().ok().and_then(|spec| spec.repository.as_deref());
        // No git runs in a directory that somebody else's row names.
        let repository = match super::result::admission(queue, places)? {
            Some(admission) => repository.filter(|it| admission.repository(Some(it)).is_ok()),
            None => repository,
        };
        let holder = holder(&outcome, repository, host);
        result(&outcome, &holder, &super::find::short(task.id));
    }
    if let Some(Landing { state, onto, at, reason }) = landing {
        say!("landing:    {state}, branch {} at {}", shown(&onto), shown(&at));
        if let Some(reason) = reason {
            say!("            {}", shown(&reason));
        }
    }
    Ok(())
}

fn asked(spec: &TaskSpec) {
    let line = |name: &str, value: Option<&dyn std::fmt::Display>| {
        if let Some(value) = value {
            say!("{:11} {}", format!("{name}:"), shown(&value.to_string()));
        }
    };
    let repository = spec.repository.as_ref().map(|path| path.display());
    line("repository", repository.as_ref().map(|path| path as _));
    line("agent", spec.agent.as_ref().map(|agent| agent as _));
    line("model", spec.model.as_ref().map(|model| model as _));
    line("group", spec.group.as_ref().map(|group| group as _));
    line("base", spec.base.as_ref().map(|base| base as _));
    for step in &spec.verify {
        line("verify", Some(&step.0));
    }
}

/// Returns where the result is: on the task's branch, or on the attempt's where the other one could not be moved.
fn holder(outcome: &Outcome, directory: Option<&Path>, host: Host<'_>) -> String {
    let repository = directory.and_then(|directory| Repository::of(directory, host).ok());
    let has_it = |name: &&String| {
        let commit = repository
            .as_ref()
            .zip(name.parse().ok())
            .and_then(|(repository, branch)| repository.branch(&branch));
        commit.as_ref() == Some(&outcome.commit)
    };
    let found = [&outcome.branch, &outcome.attempt_branch].into_iter().find(has_it);
    found.map_or_else(|| format!("commit {}", outcome.commit), |name| format!("branch {name}"))
}

fn result(outcome: &Outcome, holder: &str, id: &str) {
    let verified = if outcome.is_verified() {
        format!("verified by {}", counted(outcome.steps.len() as u64, "command"))
    } else {
        "not verified: the task names no command".to_owned()
    };
    if outcome.is_changed() {
        say!("result:     {holder}, {verified}");
        say!("            `pinfold task diff {id}` shows it, `pinfold task land {id}` lands it");
    } else {
        say!("result:     nothing was changed, {verified}")
    }
    if outcome.nano_usd > 0 {
        say!("cost:       {}", Usd(outcome.nano_usd).rounded());
    }
}

fn of_attempt(attempt: &Attempt, task: &Task, places: &Places) -> Value {
    let completion = attempt.completion.as_ref();
    let output = completion.and_then(|it| serde_json::from_str::<Value>(&it.output).ok());
    json!({
        "number": attempt.number,
        "status": attempt.status.to_string(),
        "worker": attempt.worker,
        "output": output,
        "usage": completion.map(|completion| &completion.usage),
        "failure": attempt.failure,
        "log": log_of(places, task.id, attempt.number),
    })
}

/// Where the log of an attempt is.
enum LogSource<'a> {
    /// In a file of this machine.
    Here(File),
    /// In the store: another machine works on the attempt. The message to go on with.
    Stored(&'a TaskQueue, TaskId, u64),
}

pub(super) fn logs(args: &LogsArgs, queue: &TaskQueue, places: &Places) -> Result<(), Failure> {
    let task = find(queue, &args.task.id)?;
    let (id, number) = (task.id, args.attempt.unwrap_or(task.attempts));
    if number == 0 && !args.landing {
        return Err(Failure::new("nobody has worked on this task yet")
            .hint(Some("`pinfold work` works on it".to_owned())));
    }
    let path = if args.landing { landing_log_of(places, id) } else { log_of(places, id, number) };
    let failed = |error: io::Error| {
        if error.kind() == io::ErrorKind::BrokenPipe {
            pinfold_host::sys::die_of_broken_pipe();
        }
        Failure::new(format!("cannot show {}: {error}", path.display()))
    };
    let mut source = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !args.landing => {
            LogSource::Stored(queue, id, 0)
        }
        opened => LogSource::Here(opened.map_err(failed)?),
    };
    let attempt = || {
        let attempts = queue.attempts(id).unwrap_or_default();
        attempts.into_iter().find(|attempt| attempt.number == number)
    };
    // A store that is away for a moment says nothing.
    let runs = || match queue.attempts(id) {
        Ok(attempts) => attempts.iter().any(|it| it.number == number && it.status.is_active()),
        Err(error) => error.is_transient(),
    };
    if let LogSource::Stored(..) = source
        && !args.follow
        && !has_log(queue, id, number)?
    {
        let worker = attempt().map(|attempt| shown(&attempt.worker));
        let hint =
            worker.map(|worker| format!("its worker was {worker}: that machine may have it"));
        let what = format!("no log of attempt {number} is on this machine or in the store");
        return Err(Failure::new(what).hint(hint));
    }
    let stdout = std::io::stdout().lock();
    let mut follow = |out: &mut dyn Write| -> io::Result<()> {
        loop {
            // What it printed before it ended is there after it has.
            let goes_on = args.follow && runs();
            source.copy(number, out, goes_on)?;
            out.flush()?;
            if !goes_on {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    };
    if !stdout.is_terminal() {
        return follow(&mut { stdout }).map_err(failed);
    }
    // To a terminal text and colours alone: a sandbox wrote it.
    let mut colours = Colours::new(stdout);
    let followed = follow(&mut colours);
    colours.end().and(followed).map_err(failed)
}

impl LogSource<'_> {
    /// Writes what is new. What is followed goes on when a store that is away is back.
    fn copy(&mut self, attempt: u32, out: &mut dyn Write, is_followed: bool) -> io::Result<()> {
        match self {
            Self::Here(log) => io::copy(log, out).map(drop),
            Self::Stored(queue, task, from) => loop {
                let page = match read_log(queue, *task, attempt, *from) {
                    Ok(page) => page,
                    Err(error) if error.is_transient() && is_followed => return Ok(()),
                    Err(error) => return Err(io::Error::other(error)),
                };
                out.write_all(page.text.as_bytes())?;
                *from = page.next;
                if !page.is_more {
                    return Ok(());
                }
            },
        }
    }
}

/// Removes the logs of a task.
pub(super) fn remove_logs(places: &Places, task: &Task) {
    // More than a user ever had, and not what a wrong number in the queue would take.
    const MOST: usize = 1_000;
    let _ = std::fs::remove_file(landing_log_of(places, task.id));
    for attempt in (1..=task.attempts).rev().take(MOST) {
        // One may be on another machine.
        let _ = std::fs::remove_file(log_of(places, task.id, attempt));
    }
}
