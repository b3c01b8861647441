//! What has to be true at the end, by the store and by what really happened.

use pinfold_tasks::{Attempt, AttemptStatus, QUARANTINE_AFTER, Status, Task, code};

use crate::plan::{Kind, Planned};
use crate::world::World;

/// Checks every task.
pub(crate) fn all(world: &World) {
    if !world.plan.clock_jumps {
        assert_eq!(world.ledger.overlaps, 0, "two sandboxes worked on one task at the same time");
    }
    for planned in &world.planned {
        let task = world.queue.task(planned.id).expect("a task is lost");
        let attempts = world.queue.attempts(planned.id).unwrap();
        check_attempts(&task, &attempts);
        check_result(world, planned, &task, &attempts);
        check_end(world, planned, &task);
    }
}

/// Checks that every task was completed by its first attempt.
pub(crate) fn first_attempts_count(world: &World) {
    for planned in &world.planned {
        let task = world.queue.task(planned.id).unwrap();
        assert_eq!((task.status, task.attempts), (Status::Completed, 1), "{task:?}");
    }
}

fn check_attempts(task: &Task, attempts: &[Attempt]) {
    let numbers: Vec<u32> = attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!(numbers, (1..=task.attempts).collect::<Vec<u32>>(), "{task:?}");
    assert!(task.attempts <= task.max_attempts, "{task:?}");
    for attempt in attempts {
        assert!(!attempt.status.is_active(), "an attempt goes on after the end: {attempt:?}");
        assert!(attempt.ended_at.is_some_and(|end| end >= attempt.claimed_at), "{attempt:?}");
    }
}

fn check_result(world: &World, planned: &Planned, task: &Task, attempts: &[Attempt]) {
    let completed: Vec<&Attempt> =
        attempts.iter().filter(|attempt| attempt.status == AttemptStatus::Completed).collect();
    match world.ledger.accepted.get(&planned.id) {
        Some((number, completion)) => {
            assert_eq!(task.status, Status::Completed, "an accepted result was lost: {task:?}");
            assert_eq!(task.accepted, Some(*number));
            assert!(matches!(completed[..], [one] if one.completion.as_ref() == Some(completion)));
        }
        None => {
            assert_ne!(task.status, Status::Completed, "nobody completed {task:?}");
            assert!(completed.is_empty(), "{completed:?}");
        }
    }
}

/// Checks that a task ended for a reason.
fn check_end(world: &World, planned: &Planned, task: &Task) {
    let failure = task.failure.as_ref();
    match task.status {
        Status::Completed => {
            assert!(!matches!(planned.kind, Kind::Bad | Kind::Poison | Kind::Endless));
        }
        Status::Failed => {
            let failure = failure.expect("it failed for no reason");
            let is_exhausted = task.attempts == task.max_attempts;
            let is_final = failure.retryable == Some(false);
            let is_quarantined = failure.code == code::QUARANTINED;
            assert!(is_exhausted || is_final || is_quarantined, "{task:?}");
            assert_eq!(is_quarantined, task.losses >= QUARANTINE_AFTER, "{task:?}");
            assert!(task.losses <= QUARANTINE_AFTER, "{task:?}");
        }
        Status::Cancelled => assert!(world.ledger.cancelled.contains_key(&planned.id)),
        Status::Waiting => {
            let is_met = |id| world.queue.task(id).unwrap().status == Status::Completed;
            assert!(
                !planned.depends.iter().all(|id| is_met(*id)),
                "it waits for nothing: {task:?}"
            );
        }
        Status::Queued | Status::Dispatched | Status::Running | Status::Expired => {
            panic!("not an end: {task:?}");
        }
    }
}
