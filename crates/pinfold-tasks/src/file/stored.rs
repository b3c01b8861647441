//! Tasks as stores keep them: JSON with the keys of task files, and read by the same reader. A key that an older
//! program does not know is an error there, never ignored.

use std::path::Path;

use pinfold_policy::document::{Document, FileError, Item, SettingsFile};
use pinfold_policy::settings::Narrowing;
use serde_json::{Map, Value, json};

use super::keys::{STORED, TASK};
use super::read;
use crate::spec::TaskSpec;

/// Reads a stored task. Errors name `task.json`.
///
/// # Errors
/// Returns an error for what no task may ask for.
pub fn from_stored(text: &str) -> Result<TaskSpec, FileError> {
    let file = SettingsFile { path: Path::new("task.json"), bytes: text.as_bytes() };
    let document = Document::parse(file)?;
    let section = Item::of_document(&document).table(STORED)?;
    let mut task = TaskSpec::new("", section.require("brief")?.text()?);
    read::task(&section.require("task")?.table(TASK)?, &mut task)?;
    Ok(task)
}

/// Returns a task for a store: one line of JSON.
#[must_use]
pub fn to_stored(task: &TaskSpec) -> String {
    let mut front = Map::new();
    let mut set = |key: &str, value: Option<Value>| {
        front.extend(value.map(|value| (key.to_owned(), value)));
    };
    let text = |value: &dyn ToString| Value::from(value.to_string());
    set("title", Some(task.title.as_str().into()));
    set("repository", task.repository.as_ref().map(|path| text(&path.display())));
    set("base", task.base.as_ref().map(|branch| text(branch)));
    set("branch", task.branch.as_ref().map(|branch| text(branch)));
    set("agent", task.agent.clone().map(Value::from));
    set("provider", task.provider.clone().map(Value::from));
    set("model", task.model.clone().map(Value::from));
    set("identity", task.identity.clone().map(Value::from));
    set("group", task.group.clone().map(Value::from));
    set("workspace", task.workspace.map(|mode| mode.word().into()));
    set("policy", task.policy.as_ref().map(Narrowing::to_json));
    set(
        "limits",
        table(&[
            ("cpus", task.limits.cpus.map(|cpus| (f64::from(cpus.thousandths()) / 1000.0).into())),
            ("memory", task.limits.memory.map(|size| text(&size))),
            ("pids", task.limits.pids.map(Value::from)),
            ("disk", task.limits.disk.map(|size| text(&size))),
            ("time", task.limits.time.map(|time| text(&time))),
        ]),
    );
    set(
        "budget",
        table(&[
            ("usd", task.budget.usd.map(|usd| (usd.0 as f64 / 1e9).into())),
            ("tokens", task.budget.tokens.map(Value::from)),
            ("requests", task.budget.requests.map(Value::from)),
        ]),
    );
    let steps: Vec<&str> = task.verify.iter().map(|step| step.0.as_str()).collect();
    set("verify", Some(steps.into()));
    set("restore", Some(task.restore.clone().into()));
    set("sealed", task.sealed.as_ref().map(|path| text(&path.display())));
    set("iterations", Some(task.iterations.into()));
    let depends: Vec<String> = task.depends.iter().map(ToString::to_string).collect();
    set("depends", Some(depends.into()));
    set("touches", Some(task.touches.clone().into()));
    set("priority", Some(task.priority.into()));
    set("attempts", Some(task.attempts.into()));
    let time = |time| text(&pinfold_policy::limits::WallTime::new(time));
    set(
        "timeouts",
        table(&[
            ("dispatch", Some(time(task.timeouts.dispatch))),
            ("running", Some(time(task.timeouts.running))),
        ]),
    );
    json!({ "task": front, "brief": task.brief }).to_string()
}

/// Returns a table of those values that are there; `None` without any.
fn table(values: &[(&str, Option<Value>)]) -> Option<Value> {
    let there = values.iter().filter_map(|(key, value)| Some(((*key).to_owned(), value.clone()?)));
    let table: Map<String, Value> = there.collect();
    (!table.is_empty()).then_some(Value::Object(table))
}
