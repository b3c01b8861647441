//! Conditions on other tasks that a task waits for.

use pinfold_tasks::{Task, TaskId};

use crate::problem::Problem;
use pinfold_content::Value;

/// How deep conditions may lie in each other.
const MOST_DEPTH: usize = 4;

/// Returns the tasks that a condition is about, each once.
///
/// # Errors
/// Returns an error for a condition that is too deep. Its shape was checked before.
pub(crate) fn tasks(condition: &Value) -> Result<Vec<TaskId>, Problem> {
    let mut found = Vec::new();
    collect(condition, 1, &mut found)?;
    Ok(found)
}

fn collect(condition: &Value, depth: usize, found: &mut Vec<TaskId>) -> Result<(), Problem> {
    if depth > MOST_DEPTH {
        let message = format!("must not be deeper than {MOST_DEPTH}");
        return Err(Problem::field("/claimCondition", message));
    }
    if let Some(id) = id(condition) {
        if !found.contains(&id) {
            found.push(id);
        }
        return Ok(());
    }
    parts(condition).iter().try_for_each(|part| collect(part, depth + 1, found))
}

/// Returns whether a condition holds. A task that is gone has no state.
///
/// # Errors
/// Returns the error of `find`.
pub(crate) fn holds(
    condition: &Value,
    find: &mut dyn FnMut(TaskId) -> Result<Option<Task>, Problem>,
) -> Result<bool, Problem> {
    let op = condition.text_of("op").unwrap_or_default();
    if let Some(id) = id(condition) {
        let Some(task) = find(id)? else { return Ok(false) };
        if op == "task_accepted" {
            return Ok(task.accepted.is_some());
        }
        let statuses = condition.get("statuses").and_then(Value::as_array).unwrap_or_default();
        let is_it = |status: &Value| status.as_text().is_some_and(|it| it == task.status.word());
        return Ok(statuses.iter().any(is_it));
    }
    let wants_all = op == "all";
    for part in parts(condition) {
        if holds(part, find)? != wants_all {
            return Ok(!wants_all);
        }
    }
    Ok(wants_all)
}

fn id(condition: &Value) -> Option<TaskId> {
    condition.text_of("taskId")?.to_ascii_lowercase().parse().ok()
}

fn parts(condition: &Value) -> &[Value] {
    condition.get("conditions").and_then(Value::as_array).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{holds, tasks};
    use pinfold_content::read;

    const ID: &str = "44444444-4444-4444-8444-444444444444";

    #[test]
    fn conditions_are_combined() {
        let leaf = format!(r#"{{"op":"task_accepted","taskId":"{ID}"}}"#);
        let of = |op: &str| read(&format!(r#"{{"op":"{op}","conditions":[{leaf},{leaf}]}}"#));
        assert_eq!(tasks(&of("all").unwrap()).unwrap(), [ID.parse().unwrap()]);
        for op in ["all", "any"] {
            // A task that is gone was never accepted.
            assert_eq!(holds(&of(op).unwrap(), &mut |_| Ok(None)), Ok(false), "{op}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let mut text = format!(r#"{{"op":"task_accepted","taskId":"{ID}"}}"#);
        for _ in 0..3 {
            text = format!(r#"{{"op":"all","conditions":[{text}]}}"#);
        }
        assert!(tasks(&read(&text).unwrap()).is_ok());
        text = format!(r#"{{"op":"all","conditions":[{text}]}}"#);
        assert!(tasks(&read(&text).unwrap()).is_err());
    }
}
