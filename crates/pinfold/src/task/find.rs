//! Which task is meant.

use clap::Args;
use pinfold_tasks::{Listing, QueueError, Task, TaskId, TaskSpec};

use crate::exit::Failure;
use crate::task_queue::TaskQueue;

#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// The task, by the beginning of its id
    #[arg(value_name = "ID")]
    pub(super) id: String,
}

/// Returns the beginning of an id that lists show.
pub(crate) fn short(id: TaskId) -> String {
    id.to_string().split('-').next().unwrap_or_default().to_owned()
}

/// Returns the tasks of these states, the newest first.
///
/// # Errors
/// Returns the error of the queue.
pub(super) fn all(
    queue: &TaskQueue,
    mut listing: Listing,
    mut take: impl FnMut(Task) -> bool,
) -> Result<(), Failure> {
    loop {
        let page = queue.list(&listing)?;
        for task in page.tasks {
            if !take(task) {
                return Ok(());
            }
        }
        match page.next {
            Some(next) => listing.before = Some(next),
            None => return Ok(()),
        }
    }
}

/// Returns what a task asks for, or why that cannot be read: others may write to a team's queue, and one row of theirs must
/// not keep a user from all tasks.
///
/// # Errors
/// Returns the error of the queue.
pub(super) fn spec_of(queue: &TaskQueue, id: TaskId) -> Result<Result<TaskSpec, String>, Failure> {
    match queue.spec(id) {
        Ok(spec) => Ok(Ok(spec)),
        Err(error @ (QueueError::Spec(_) | QueueError::NotFound(_))) => Ok(Err(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Returns the one task whose id begins so.
///
/// # Errors
/// Returns an error unless exactly one begins so.
pub(super) fn find(queue: &TaskQueue, begin: &str) -> Result<Task, Failure> {
    let hint = || Some("`pinfold task ls --all` lists tasks".to_owned());
    if let Ok(id) = begin.parse::<TaskId>() {
        return Ok(queue.task(id)?);
    }
    let could_begin = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
    if begin.is_empty() || !begin.chars().all(could_begin) {
        return Err(Failure::new(format!("{begin:?} is no beginning of a task's id")).hint(hint()));
    }
    let mut found: Vec<Task> = Vec::new();
    let listing = Listing { limit: 1_000, ..Listing::default() };
    all(queue, listing, |task| {
        if task.id.to_string().starts_with(&begin.to_ascii_lowercase()) {
            found.push(task);
        }
        found.len() < 9
    })?;
    match found.len() {
        1 => Ok(found.swap_remove(0)),
        0 => Err(Failure::new(format!("no task begins with {begin}")).hint(hint())),
        _ => {
            let names: Vec<String> = found.iter().map(|task| task.id.to_string()).collect();
            Err(Failure::new(format!("more than one task begins with {begin}"))
                .hint(Some(format!("name one of these: {}", names.join(", ")))))
        }
    }
}
