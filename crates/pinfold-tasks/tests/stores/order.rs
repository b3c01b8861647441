//! Which tasks may be worked on, and in which order, with every store.

use pinfold_tasks::{
    Draft, Failure, GroupLimits, Queue, QueueError, Refused, Status, Store, Transaction as _, code,
};

use crate::promises::{completion, refused, start};
use crate::testing::{TestClock, claim, draft, id, seconds};

pub(crate) fn tasks_that_change_the_same_files_are_not_worked_on_at_once<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    let tasks: [(u128, &str, &[&str]); 5] = [
        (1, "/a", &["src/**"]),
        (2, "/a", &["docs", "src/main.rs"]),
        (3, "/b", &["src/**"]),
        (4, "/a", &["documents/*"]),
        (5, "/a", &[]),
    ];
    for (number, repository, touches) in tasks {
        let mut draft = draft(number);
        draft.spec.repository = Some(repository.into());
        draft.spec.touches = touches.iter().map(ToString::to_string).collect();
        queue.add(&draft).unwrap();
        clock.advance(1);
    }
    second_waits_for_the_first(queue);
}

/// Of five tasks the second one waits until the first one is completed.
fn second_waits_for_the_first<S: Store>(queue: &Queue<S>) {
    let first = start(queue, 1);
    let others = [2, 3, 4].map(|number| start(queue, number).task);
    assert_eq!((first.task, others), (id(1), [3, 4, 5].map(id)));
    assert!(queue.claim(&claim(5)).unwrap().is_none());
    // Nor is it begun by its name.
    assert_eq!(refused(queue.claim_task(id(2), &claim(5))), Refused::Overlaps(id(1)));
    queue.complete(&first, &completion()).unwrap();
    assert_eq!(start(queue, 6).task, id(2));
}

pub(crate) fn tasks_of_a_group_are_worked_on_one_at_a_time<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    for (number, group) in [(1, Some("a")), (2, Some("a")), (3, Some("b")), (4, None), (5, None)] {
        let mut draft = draft(number);
        draft.spec.group = group.map(str::to_owned);
        queue.add(&draft).unwrap();
        clock.advance(1);
    }
    second_waits_for_the_first(queue);
}

/// The groups of which more than one task is worked on at once.
pub(crate) fn wide() -> GroupLimits {
    GroupLimits::new(
        [("wide".to_owned(), 2), ("other".to_owned(), 3), ("one".to_owned(), 1)].into(),
    )
}

pub(crate) fn group_with_room_for_two_has_two_tasks_and_no_third<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    for number in 1..=6 {
        let mut draft = draft(number);
        draft.spec.group = Some(if number < 5 { "wide" } else { "one" }.to_owned());
        // What files overlap still keeps two tasks of a group apart.
        draft.spec.touches = if number < 3 { vec!["src".to_owned()] } else { Vec::new() };
        queue.add(&draft).unwrap();
        clock.advance(1);
    }
    let begun = [1, 2, 3].map(|number| start(queue, number));
    assert_eq!(begun.each_ref().map(|holder| holder.task), [1, 3, 5].map(id));
    assert!(queue.claim(&claim(7)).unwrap().is_none());
    assert_eq!(refused(queue.claim_task(id(4), &claim(8))), Refused::Overlaps(id(4)));
    queue.complete(&begun[1], &completion()).unwrap();
    assert_eq!(start(queue, 9).task, id(4));
    assert!(queue.claim(&claim(10)).unwrap().is_none());
}

pub(crate) fn higher_priority_and_then_the_oldest_is_claimed_first<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    for (number, priority) in [(1, 0), (2, 5), (3, 0), (4, 5)] {
        let mut draft = draft(number);
        draft.spec.priority = priority;
        queue.add(&draft).unwrap();
        clock.advance(1);
    }
    let order = [1, 2, 3, 4].map(|number| start(queue, number).task);
    assert_eq!(order, [2, 4, 1, 3].map(id));
}

/// Those of a group, and those that change the same files as one that is worked on, are left for later.
pub(crate) fn candidates_are_queued_tasks_that_may_run_and_are_not_placed<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    let add = |number: u128, touches: &[&str], expires_after| {
        let mut draft = Draft { expires_after, ..draft(number) };
        draft.spec.touches = touches.iter().map(ToString::to_string).collect();
        queue.add(&draft).unwrap();
        clock.advance(1);
    };
    for (number, touches) in [(1, &["src/**"][..]), (2, &["src/main.rs"]), (3, &[]), (4, &[])] {
        add(number, touches, None);
    }
    add(5, &[], Some(seconds(3)));
    add(6, &[], None);
    let found = |limit, most, placed: &[u128]| -> Vec<_> {
        let placed: Vec<_> = placed.iter().map(|number| (id(*number), 1)).collect();
        let is_placed = |task, attempt| placed.contains(&(task, attempt));
        let candidates = queue.candidates(limit, most, &is_placed).unwrap();
        candidates.into_iter().map(|candidate| (candidate.task, candidate.attempt)).collect()
    };
    let first =
        |numbers: &[u128]| -> Vec<_> { numbers.iter().map(|number| (id(*number), 1)).collect() };
    assert_eq!(found(9, 9, &[]), first(&[1, 2, 3, 4, 5, 6]));
    assert_eq!(found(9, 2, &[1, 3]), first(&[2, 4]));
    assert_eq!(found(3, 9, &[1, 3]), first(&[2]));
    let claimed = queue.claim_attempt(id(1), 1, &claim(1), |_| Ok(true)).unwrap().unwrap();
    let overlaps = queue.claim_attempt(id(2), 1, &claim(2), |_| Ok(true));
    assert_eq!(refused(overlaps), Refused::Overlaps(id(1)));
    assert!(queue.claim_attempt(id(3), 1, &claim(3), |_| Ok(false)).unwrap().is_none());
    // One has expired by now, which nobody has asked about.
    clock.advance(3);
    assert_eq!(found(9, 9, &[]), first(&[3, 4, 6]));
    assert_eq!(queue.task(id(5)).unwrap().status, Status::Expired);
    queue.heartbeat(&claimed.holder, None).unwrap();
    queue.fail(&claimed.holder, &Failure::new("no", "no")).unwrap();
    assert_eq!(found(9, 9, &[1, 2, 3, 4]), [(id(6), 1), (id(1), 2)]);
    // What one of them asks for is lost.
    let lost = queue.store().write(|transaction| {
        let record = transaction.load(id(3))?.unwrap();
        transaction.remove(id(3))?;
        transaction.insert(&record, "{}", &[], &[])
    });
    lost.unwrap();
    assert_eq!(found(9, 9, &[1, 2]), [(id(4), 1), (id(6), 1), (id(1), 2)]);
    assert_eq!(queue.task(id(3)).unwrap().failure.unwrap().code, code::INVALID_TASK);
}

pub(crate) fn task_waits_for_those_that_it_depends_on<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    let depends = |number, on: &[u128]| {
        let mut draft = draft(number);
        draft.spec.depends = on.iter().copied().map(id).collect();
        draft
    };
    let unknown = queue.add(&depends(5, &[4]));
    assert_eq!(refused(unknown), Refused::UnknownDependency(id(4)));
    assert!(matches!(queue.task(id(5)), Err(QueueError::NotFound(_))));
    queue.add(&draft(1)).unwrap();
    queue.add(&draft(2)).unwrap();
    // The same one twice counts once.
    let waiting = queue.add(&depends(3, &[1, 2, 1])).unwrap();
    assert_eq!((waiting.status, waiting.waits_for), (Status::Waiting, 2));
    let holder = start(queue, 1);
    queue.complete(&holder, &completion()).unwrap();
    assert_eq!(queue.task(id(3)).unwrap().status, Status::Waiting);
    let holder = start(queue, 2);
    let failure = Failure { retryable: Some(false), ..Failure::new("x", "") };
    queue.fail(&holder, &failure).unwrap();
    assert_eq!(queue.task(id(3)).unwrap().status, Status::Waiting);
    assert_eq!(refused(queue.remove(id(2))), Refused::Needed(1));
    queue.retry(id(2)).unwrap();
    clock.advance(1);
    let holder = start(queue, 3);
    queue.complete(&holder, &completion()).unwrap();
    assert_eq!(queue.task(id(3)).unwrap().status, Status::Queued);
    // One that is done already is not waited for.
    assert_eq!(queue.add(&depends(4, &[1])).unwrap().status, Status::Queued);
    // One whose result counts already, and one that will never have a result.
    queue.add(&draft(6)).unwrap();
    queue.add(&draft(7)).unwrap();
    queue.add(&depends(8, &[6, 7])).unwrap();
    queue.add(&depends(9, &[6])).unwrap();
    clock.advance(1);
    for number in [4, 5, 6] {
        let holder = start(queue, number);
        queue.complete(&holder, &completion()).unwrap();
    }
    for number in [7, 8, 9] {
        queue.cancel(id(number), "").unwrap();
    }
    queue.remove(id(6)).unwrap();
    queue.retry(id(9)).unwrap();
    queue.retry(id(8)).unwrap();
    queue.cancel(id(8), "").unwrap();
    queue.remove(id(7)).unwrap();
    assert_eq!(refused(queue.retry(id(8))), Refused::DependencyRemoved);
    assert_eq!(queue.task(id(8)).unwrap().status, Status::Cancelled);
}
