//! The values of a task's front matter.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use pinfold_policy::document::{FileError, Item, Section};
use pinfold_policy::limits::{MilliCpus, WallTime};
use pinfold_policy::path::is_plain;
use pinfold_policy::settings::{Narrowing, Usd, WorkspaceMode};

use super::keys::{BUDGET, LIMITS, TIMEOUTS};
use crate::spec::{Budget, Limits, TaskSpec, VerifyStep};
use crate::task::Timeouts;

/// The highest priority; the lowest, and the default, is 0.
const HIGHEST_PRIORITY: u64 = 1000;
/// The longest command that verifies a result, in bytes.
const LONGEST_STEP: usize = 4 << 10;
/// The longest policy, in bytes of JSON. It is an argument of `pinfold run`, which may have 128 KiB (execve(2)).
const LONGEST_POLICY: usize = 64 << 10;

/// Reads the front matter of a task.
pub(super) fn task(section: &Section<'_>, task: &mut TaskSpec) -> Result<(), FileError> {
    values(section, task)?;
    task.depends = section.read("depends", |item| some(item, Item::parsed))?.unwrap_or_default();
    Ok(())
}

/// Reads what tasks and specifications have in common.
pub(super) fn values(section: &Section<'_>, task: &mut TaskSpec) -> Result<(), FileError> {
    task.title = section.read("title", title)?.unwrap_or_default();
    task.repository = section.read("repository", path)?;
    task.base = section.read("base", Item::parsed)?;
    task.branch = section.read("branch", Item::parsed)?;
    task.agent = section.read("agent", name)?;
    task.provider = section.read("provider", name)?;
    task.model = section.read("model", model)?;
    task.identity = section.read("identity", name)?;
    task.group = section.read("group", name)?;
    task.workspace = section.read("workspace", Item::parsed::<WorkspaceMode>)?;
    task.policy = section.read("policy", policy)?;
    task.limits = section.read("limits", limits)?.unwrap_or_default();
    task.budget = section.read("budget", budget)?.unwrap_or_default();
    task.verify = section.read("verify", steps)?.unwrap_or_default();
    task.restore = section.read("restore", |item| some(item, inside))?.unwrap_or_default();
    task.sealed = section.read("sealed", path)?;
    let iterations = section.read("iterations", attempts)?;
    task.iterations = iterations.unwrap_or(TaskSpec::ITERATIONS);
    task.touches = section.read("touches", |item| some(item, inside))?.unwrap_or_default();
    task.priority = section.read("priority", priority)?.unwrap_or_default();
    task.attempts = section.read("attempts", attempts)?.unwrap_or(TaskSpec::ATTEMPTS);
    task.timeouts = section.read("timeouts", timeouts)?.unwrap_or_default();
    Ok(())
}

fn title(item: &Item<'_>) -> Result<String, FileError> {
    let title = line(item)?;
    if title.len() > TaskSpec::LONGEST_TITLE {
        let what = format!("is longer than {} bytes", TaskSpec::LONGEST_TITLE);
        return Err(item.invalid(what));
    }
    Ok(title)
}

/// Returns text on one line that shows as it is.
fn line(item: &Item<'_>) -> Result<String, FileError> {
    let text = item.text()?;
    if text.trim().is_empty() {
        return Err(item.invalid("is empty"));
    }
    if !text.chars().all(is_plain) {
        return Err(item.invalid("has a line break or a character that does not show"));
    }
    Ok(text.to_owned())
}

/// Returns the name of an agent, a provider or an identity, which becomes part of a command line.
fn name(item: &Item<'_>) -> Result<String, FileError> {
    let name = line(item)?;
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if name.bytes().all(is_part) && name.as_bytes()[0].is_ascii_alphanumeric() {
        Ok(name)
    } else {
        Err(item.invalid("expected letters, digits, '.', '_' and '-'"))
    }
}

/// Returns a model, which becomes an argument of the agent's and must not be an option.
fn model(item: &Item<'_>) -> Result<String, FileError> {
    let model = line(item)?;
    if model.starts_with('-') { Err(item.invalid("begins with '-'")) } else { Ok(model) }
}

fn path(item: &Item<'_>) -> Result<PathBuf, FileError> {
    let path = PathBuf::from(item.text()?);
    if path.is_absolute() && !path.components().any(|part| part == Component::ParentDir) {
        Ok(path)
    } else {
        Err(item.invalid("expected an absolute path without \"..\""))
    }
}

/// Returns a path in the repository, which git reads as it is.
fn inside(item: &Item<'_>) -> Result<String, FileError> {
    let text = line(item)?;
    let path = Path::new(&text);
    let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_below && !text.starts_with(':') {
        Ok(text)
    } else {
        Err(item.invalid("expected a path in the repository, without \"..\""))
    }
}

/// Returns the names of specifications: one or several, as text with blanks between them, as a number,
/// or as a list.
pub(super) fn names(item: &Item<'_>) -> Result<Vec<String>, FileError> {
    let one = |item: &Item<'_>| match item.count() {
        Ok(number) => Ok(number.to_string()),
        Err(_) => line(item),
    };
    match item.list() {
        Ok(_) => some(item, one),
        Err(_) => Ok(one(item)?.split_whitespace().map(str::to_owned).collect()),
    }
}

/// Returns a list that is not too long.
fn some<'a, T>(
    item: &Item<'a>,
    read: impl Fn(&Item<'a>) -> Result<T, FileError>,
) -> Result<Vec<T>, FileError> {
    let items = item.list()?;
    if items.len() > TaskSpec::MOST_STEPS {
        return Err(item.invalid(format!("has more than {} items", TaskSpec::MOST_STEPS)));
    }
    items.iter().map(read).collect()
}

fn steps(item: &Item<'_>) -> Result<Vec<VerifyStep>, FileError> {
    some(item, |item| {
        let step = item.text()?;
        match step.trim() {
            "" => Err(item.invalid("is empty")),
            step if step.len() > LONGEST_STEP => {
                let hint = "put it into a script of the repository";
                Err(item.invalid(format!("is longer than {LONGEST_STEP} bytes; {hint}")))
            }
            step => Ok(VerifyStep(step.to_owned())),
        }
    })
}

fn policy(item: &Item<'_>) -> Result<Narrowing, FileError> {
    let policy = Narrowing::read(item)?;
    if policy.to_json().to_string().len() > LONGEST_POLICY {
        return Err(item.invalid(format!("is longer than {LONGEST_POLICY} bytes")));
    }
    Ok(policy)
}

fn limits(item: &Item<'_>) -> Result<Limits, FileError> {
    let table = item.table(LIMITS)?;
    let cpus =
        |item: &Item<'_>| MilliCpus::from_cpus(item.number()?).map_err(|error| item.invalid(error));
    Ok(Limits {
        cpus: table.read("cpus", cpus)?,
        memory: table.read("memory", Item::parsed)?,
        pids: table.read("pids", Item::count)?,
        disk: table.read("disk", Item::parsed)?,
        time: table.read("time", Item::parsed)?,
    })
}

fn budget(item: &Item<'_>) -> Result<Budget, FileError> {
    let table = item.table(BUDGET)?;
    let usd = |item: &Item<'_>| {
        let amount = item.number()?.to_string();
        amount.parse::<Usd>().map_err(|error| item.invalid(error))
    };
    Ok(Budget {
        usd: table.read("usd", usd)?,
        tokens: table.read("tokens", Item::count)?,
        requests: table.read("requests", Item::count)?,
    })
}

fn priority(item: &Item<'_>) -> Result<i32, FileError> {
    match i32::try_from(item.whole()?.min(HIGHEST_PRIORITY + 1)) {
        Ok(priority) if i64::from(priority) <= HIGHEST_PRIORITY as i64 => Ok(priority),
        _ => Err(item.invalid(format!("expected at most {HIGHEST_PRIORITY}"))),
    }
}

fn attempts(item: &Item<'_>) -> Result<u32, FileError> {
    match u32::try_from(item.count()?) {
        Ok(count) if count as usize <= TaskSpec::MOST_STEPS => Ok(count),
        _ => Err(item.invalid(format!("expected at most {}", TaskSpec::MOST_STEPS))),
    }
}

fn timeouts(item: &Item<'_>) -> Result<Timeouts, FileError> {
    let table = item.table(TIMEOUTS)?;
    let time = |item: &Item<'_>| -> Result<Duration, FileError> {
        let time = item.parsed::<WallTime>()?.duration();
        if (Duration::from_secs(1)..=Timeouts::LONGEST).contains(&time) {
            Ok(time)
        } else {
            Err(item.invalid("expected between 1s and 1day"))
        }
    };
    let default = Timeouts::default();
    Ok(Timeouts {
        dispatch: table.read("dispatch", time)?.unwrap_or(default.dispatch),
        running: table.read("running", time)?.unwrap_or(default.running),
    })
}
