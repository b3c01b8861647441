//! `pinfold cluster check`: what is missing for tasks on nodes.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use pinfold_cluster::{Job, JobMaker as _, JobName, JobState, RunId};
use pinfold_host::directories::Places;
use pinfold_host::launcher::Launcher;
use pinfold_tasks::{TaskId, TaskSpec};
use serde_json::{Value, json};

use super::CheckArgs;
use super::site::{Site, shared_queue};
use crate::exit::Failure;
use crate::print::{self, say};
use crate::work::plain;

/// How long a job may take to say what is missing on its node.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often the scheduler is asked for it.
const LOOK: Duration = Duration::from_millis(300);
/// What the job starts.
const COMMAND: &[&str] = &["cluster", "probe"];

/// Something that was looked at.
struct Item {
    what: &'static str,
    /// What was found.
    found: Result<String, Failure>,
}

/// Looks at the queue, the scheduler and a node, and says what is missing.
pub(super) fn check(
    args: &CheckArgs,
    places: &Places,
    launcher: &Launcher,
) -> Result<ExitCode, Failure> {
    let mut items = vec![Item { what: "queue", found: queue(places) }];
    match Site::find(places, launcher) {
        Ok(site) => {
            let answers = site.scheduler.observe(&[]).map_err(Failure::new);
            let is_there = answers.is_ok();
            let found = answers.map(|_| format!("{} answers", site.scheduler.name()));
            items.push(Item { what: "scheduler", found });
            if is_there && !args.no_job {
                items.extend(node(&site)?);
            }
        }
        Err(failure) => items.push(Item { what: "scheduler", found: Err(failure) }),
    }
    let works = items.iter().all(|item| item.found.is_ok());
    if args.output.json {
        print::json_line(&as_json(items, works))?;
    } else {
        items.into_iter().for_each(show);
    }
    Ok(ExitCode::from(u8::from(!works)))
}

fn queue(places: &Places) -> Result<String, Failure> {
    shared_queue(places, Duration::ZERO).map(|_| "a database that the settings name".to_owned())
}

/// Has a job say what is missing on its node.
fn node(site: &Site<'_>) -> Result<Vec<Item>, Failure> {
    let attempt = |found: Result<String, Failure>| vec![Item { what: "node", found }];
    let task = TaskId::generate().map_err(Failure::new)?;
    // No attempt has this number.
    let name = JobName { task, attempt: 0, run: RunId::generate().map_err(Failure::new)? };
    let mut request = site.jobs(COMMAND)?.job(&name, &TaskSpec::new("check", "check"));
    request.command.truncate(1 + COMMAND.len());
    let job = match site.scheduler.submit(&request) {
        Ok(id) => Job { name, id },
        Err(error) => return Ok(attempt(Err(Failure::new(error)))),
    };
    let ended = wait(site, &job);
    let printed = site.scheduler.output(&name);
    site.scheduler.clean_up(&name);
    if let Err(failure) = ended {
        let _ = site.scheduler.cancel(&job);
        return Ok(attempt(Err(failure)));
    }
    match serde_json::from_str::<Value>(&printed) {
        Ok(said) => Ok(missing(&said)),
        Err(_) if printed.is_empty() => {
            let failure = Failure::new(format!("job {} printed nothing", job.id));
            let hint = site.scheduler.no_output().to_owned();
            Ok(attempt(Err(failure.hint(Some(hint)))))
        }
        Err(_) => Ok(attempt(Err(Failure::new(format!("job {} printed: {printed}", job.id))))),
    }
}

/// Waits until a job has ended.
fn wait(site: &Site<'_>, job: &Job) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        match site.scheduler.observe(std::slice::from_ref(job)).map_err(Failure::new)?.first() {
            Some(JobState::Ended(_)) => return Ok(()),
            _ => std::thread::sleep(LOOK),
        }
    }
    let hint = "the cluster may be busy, or no node may fit what cluster.toml asks for";
    Err(Failure::new(format!("job {} has not ended within {} s", job.id, PATIENCE.as_secs()))
        .hint(Some(hint.to_owned())))
}

/// Returns what a node says of itself.
fn missing(said: &Value) -> Vec<Item> {
    let text = |key: &str| plain(said[key].as_str().unwrap_or_default());
    let node = format!("{}, Linux {}, pinfold {}", text("node"), text("kernel"), text("version"));
    let found = |key: &'static str, good: &str| match said[key].as_str() {
        None => Ok(good.to_owned()),
        Some(_) => Err(Failure::new(text(key))),
    };
    let repositories = match said["repositories"].as_u64() {
        Some(count) if count > 0 => Ok(format!("{count} directories are allowed")),
        _ => Err(Failure::new("tasks may use no repository on nodes").hint(Some(
            "list directories as `repositories` under [tasks] in the nodes' config.toml".to_owned(),
        ))),
    };
    vec![
        Item { what: "node", found: Ok(node) },
        Item { what: "sandboxes", found: found("boundary", "work by default") },
        Item { what: "store", found: found("store", "the node reaches it") },
        Item { what: "repositories", found: repositories },
    ]
}

fn show(item: Item) {
    let name = format!("{}:", item.what);
    match item.found {
        Ok(found) => say!("{name:14}{found}"),
        Err(failure) => {
            say!("{name:14}missing");
            let _ = failure.show();
        }
    }
}

fn as_json(items: Vec<Item>, works: bool) -> Value {
    let of = |item: Item| match item.found {
        Ok(found) => json!({ "what": item.what, "works": true, "found": found }),
        Err(failure) => json!({ "what": item.what, "works": false, "found": failure.into_error() }),
    };
    let items: Vec<Value> = items.into_iter().map(of).collect();
    json!({ "works": works, "items": items })
}
