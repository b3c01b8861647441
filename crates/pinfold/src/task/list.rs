//! `pinfold task ls`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use pinfold_policy::path::is_plain;
use pinfold_tasks::{Landing, Listing, Status, Task, Timestamp};
use pinfold_terminal::notify;
use serde_json::{Value, json};

use super::find::{all, short};
use crate::cli::Output;
use crate::exit::Failure;
use crate::print::{self, Ago, say};
use crate::task_queue::TaskQueue;

/// Ended tasks that are listed at most, the newest ones.
const MOST: usize = 1_000;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Also list tasks that have ended
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

pub(super) fn list(args: &ListArgs, queue: &TaskQueue) -> Result<(), Failure> {
    // Tasks whose time is over are listed as what they are.
    queue.sweep(100)?;
    let active = [Status::Waiting, Status::Queued, Status::Dispatched, Status::Running];
    let statuses = if args.all { Vec::new() } else { active.to_vec() };
    let mut tasks = Vec::new();
    all(queue, Listing { statuses, limit: 200, ..Listing::default() }, |task| {
        tasks.push(task);
        tasks.len() < MOST
    })?;
    let landings = queue.landings()?;
    if args.output.json {
        let of = |task: &Task| of_task(task, landings.get(&task.id));
        let tasks: Vec<Value> = tasks.iter().map(of).collect();
        return print::json(&json!({ "tasks": tasks }));
    }
    if tasks.is_empty() {
        notify!("pinfold: no tasks{}", if args.all { "" } else { " are queued or worked on" });
        return Ok(());
    }
    say!("{:8}  {:12}  {:>8}  {:>12}  TITLE", "ID", "STATUS", "ATTEMPTS", "CHANGED");
    let now = SystemTime::now();
    for task in &tasks {
        let changed = Ago(system_time(task.updated_at), now);
        let attempts = format!("{}/{}", task.attempts, task.max_attempts);
        let title = shown(&task.title);
        // Of a result it matters more how far it is than that there is one.
        let landing = landings.get(&task.id).map(|landing| landing.state.to_string());
        let status = landing.unwrap_or_else(|| task.status.to_string());
        say!("{:8}  {status:12}  {attempts:>8}  {changed:>12}  {title}", short(task.id));
    }
    Ok(())
}

/// Returns a task as JSON.
pub(super) fn of_task(task: &Task, landing: Option<&Landing>) -> Value {
    let landing = landing.map(|landing| {
        json!({
            "state": landing.state.word(),
            "onto": landing.onto,
            "at": landing.at,
            "reason": landing.reason,
        })
    });
    json!({
        "id": task.id.to_string(),
        "title": task.title,
        "status": task.status.to_string(),
        "priority": task.priority,
        "attempts": task.attempts,
        "maxAttempts": task.max_attempts,
        "addedAt": task.added_at.millis(),
        "updatedAt": task.updated_at.millis(),
        "endedAt": task.ended_at.map(Timestamp::millis),
        "accepted": task.accepted,
        "failure": task.failure,
        "landing": landing,
    })
}

pub(super) fn system_time(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(time.millis())
}

/// Returns a text from a task, as a terminal may show it.
pub(super) fn shown(text: &str) -> String {
    text.chars().map(|letter| if is_plain(letter) { letter } else { '?' }).collect()
}
