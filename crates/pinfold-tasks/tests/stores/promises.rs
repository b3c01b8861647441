//! What the queue promises, with every store.

use std::collections::HashSet;

use pinfold_tasks::{
    AttemptStatus, Completion, Failure, Heartbeat, Holder, Landing, LandingState, Listing,
    NewMessage, Note, Queue, QueueError, Refused, Settled, SqliteStore, Status, Store, StoreError,
    Transaction as _, Usage, code,
};
use pinfold_tasks_postgres::AnyStore;

use crate::artifacts::agent_reads_its_task_and_keeps_files_with_it;
use crate::order::{
    candidates_are_queued_tasks_that_may_run_and_are_not_placed,
    group_with_room_for_two_has_two_tasks_and_no_third,
    higher_priority_and_then_the_oldest_is_claimed_first, task_waits_for_those_that_it_depends_on,
    tasks_of_a_group_are_worked_on_one_at_a_time,
    tasks_that_change_the_same_files_are_not_worked_on_at_once, wide,
};
use crate::server::Server;
use crate::testing::{TestClock, claim, draft, id, seconds, token};

pub(crate) fn completion() -> Completion {
    Completion { output: r#"{"b":1,"a":[1,2.50]}"#.to_owned(), usage: Usage::default() }
}

/// Claims the next task and starts it.
pub(crate) fn start<S: Store>(queue: &Queue<S>, number: u128) -> Holder {
    let claimed = queue.claim(&claim(number)).unwrap().expect("a task is queued");
    queue.heartbeat(&claimed.holder, None).unwrap();
    claimed.holder
}

pub(crate) fn refused<T: std::fmt::Debug>(result: Result<T, QueueError>) -> Refused {
    match result {
        Err(QueueError::Refused(refused)) => refused,
        other => panic!("not refused: {other:?}"),
    }
}

fn task_is_worked_on_from_end_to_end<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    let claimed = queue.claim(&claim(1)).unwrap().unwrap();
    assert_eq!(claimed.holder.task, id(1));
    assert_eq!(claimed.spec, draft(1).spec);
    assert_eq!(queue.task(id(1)).unwrap().status, Status::Dispatched);
    clock.advance(1);
    queue.heartbeat(&claimed.holder, Some(seconds(60))).unwrap();
    clock.advance(1);
    assert_eq!(queue.complete(&claimed.holder, &completion()).unwrap(), Settled::Now);
    assert_eq!(queue.complete(&claimed.holder, &completion()).unwrap(), Settled::Before);
    let (task, attempts) = (queue.task(id(1)).unwrap(), queue.attempts(id(1)).unwrap());
    assert_eq!((task.status, task.accepted), (Status::Completed, Some(1)));
    // The text is kept as it was sent.
    assert_eq!(attempts[0].completion, Some(completion()));
    assert_eq!(attempts[0].status, AttemptStatus::Completed);
    assert_eq!(attempts[0].ttl, seconds(60));
    assert!(queue.claim(&claim(2)).unwrap().is_none());
}

fn repeated_claim_returns_the_same_attempt<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    queue.add(&draft(2)).unwrap();
    let first = queue.claim(&claim(1)).unwrap().unwrap();
    let again = queue.claim(&claim(1)).unwrap().unwrap();
    assert_eq!(first.holder, again.holder);
    assert_eq!(queue.claim_task(id(1), &claim(1)).unwrap().holder, first.holder);
    assert_eq!(refused(queue.claim_task(id(2), &claim(1))), Refused::NotHolder);
    assert_eq!(queue.task(id(2)).unwrap().status, Status::Queued);
    clock.advance(300);
    assert_eq!(refused(queue.claim(&claim(1))), Refused::LeaseExpired);
}

fn lost_worker_frees_its_task_and_its_late_result_is_refused<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    queue.add(&draft(1)).unwrap();
    let lost = start(queue, 1);
    clock.advance(299);
    assert_eq!(queue.sweep(10).unwrap(), 0);
    assert!(queue.claim(&claim(2)).unwrap().is_none());
    clock.advance(1);
    // The claim makes time pass; nobody has to sweep.
    let next = start(queue, 2);
    assert_eq!((next.task, next.attempt), (id(1), 2));
    assert_eq!(refused(queue.complete(&lost, &completion())), Refused::LeaseExpired);
    assert_eq!(refused(queue.heartbeat(&lost, None)), Refused::LeaseExpired);
    assert_eq!(refused(queue.fail(&lost, &Failure::new("x", ""))), Refused::LeaseExpired);
    let stolen = Holder { token: lost.token, ..next };
    assert_eq!(refused(queue.complete(&stolen, &completion())), Refused::NotHolder);
    assert_eq!(queue.complete(&next, &completion()).unwrap(), Settled::Now);
    let attempts = queue.attempts(id(1)).unwrap();
    let statuses: Vec<AttemptStatus> = attempts.iter().map(|attempt| attempt.status).collect();
    assert_eq!(statuses, [AttemptStatus::TimedOut, AttemptStatus::Completed]);
}

fn refused_change_is_not_saved<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    let holder = start(queue, 1);
    let (task, attempts) = (queue.task(id(1)).unwrap(), queue.attempts(id(1)).unwrap());
    clock.advance(10);
    let wrong = Holder { token: token(9), ..holder };
    assert_eq!(refused(queue.complete(&wrong, &completion())), Refused::NotHolder);
    assert_eq!((queue.task(id(1)).unwrap(), queue.attempts(id(1)).unwrap()), (task, attempts));
}

fn sweep_is_bounded_and_reaches_everything<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    for number in 1..=7 {
        let mut draft = draft(number);
        draft.expires_after = Some(seconds(60));
        queue.add(&draft).unwrap();
    }
    clock.advance(60);
    let swept = [3, 3, 3, 3].map(|limit| queue.sweep(limit).unwrap());
    assert_eq!(swept, [3, 3, 1, 0]);
    assert!((1..=7).all(|number| queue.task(id(number)).unwrap().status == Status::Expired));
    assert!(queue.claim(&claim(1)).unwrap().is_none());
}

fn expired_tasks_do_not_hold_up_a_claim<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    for number in 1..=20 {
        let mut draft = draft(number);
        draft.expires_after = Some(seconds(60)).filter(|_| number < 20);
        queue.add(&draft).unwrap();
    }
    clock.advance(60);
    assert_eq!(start(queue, 1).task, id(20));
    assert_eq!(queue.sweep(100).unwrap(), 0);
}

/// Others may write to a team's store, and what a newer program adds may be unknown here.
fn task_that_cannot_be_read_fails_and_holds_up_no_other<S: Store>(
    queue: &Queue<S>,
    _clock: &TestClock,
) {
    for number in 1..=3 {
        queue.add(&draft(number)).unwrap();
    }
    for (number, spec) in [(1, "{}"), (2, r#"{"task":{"title":"t","unknown":1},"brief":"b"}"#)] {
        let replaced = queue.store().write(|transaction| {
            let record = transaction.load(id(number))?.unwrap();
            transaction.remove(id(number))?;
            transaction.insert(&record, spec, &[], &[])
        });
        replaced.unwrap();
    }
    assert_eq!(start(queue, 1).task, id(3));
    for number in [1, 2] {
        let task = queue.task(id(number)).unwrap();
        let failure = task.failure.unwrap();
        assert_eq!((task.status, failure.code.as_str()), (Status::Failed, code::INVALID_TASK));
        assert!(failure.message.contains("task.json"), "{}", failure.message);
        assert!(matches!(queue.claim_task(id(number), &claim(9)), Err(QueueError::Spec(_))));
    }
    assert!(queue.claim(&claim(2)).unwrap().is_none());
}

fn cancelled_task_tells_its_worker_and_takes_no_result<S: Store>(
    queue: &Queue<S>,
    _clock: &TestClock,
) {
    queue.add(&draft(1)).unwrap();
    let holder = start(queue, 1);
    queue.cancel(id(1), "not wanted").unwrap();
    let answer = queue.heartbeat(&holder, None).unwrap();
    assert_eq!(answer, Heartbeat::Cancelled("not wanted".to_owned()));
    let ended = Refused::Ended(Status::Cancelled);
    assert_eq!(refused(queue.complete(&holder, &completion())), ended);
    assert_eq!(refused(queue.append(&holder, &[message("x")])), ended);
    let attempts = queue.attempts(id(1)).unwrap();
    assert_eq!(attempts[0].failure.as_ref().unwrap().code, code::TASK_CANCELLED);
}

fn only_what_has_ended_is_removed<S: Store>(queue: &Queue<S>, _clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    assert_eq!(refused(queue.remove(id(1))), Refused::StillActive(Status::Queued));
    let holder = start(queue, 1);
    queue.append(&holder, &[message("x")]).unwrap();
    assert_eq!(refused(queue.remove(id(1))), Refused::StillActive(Status::Running));
    queue.complete(&holder, &completion()).unwrap();
    queue.remove(id(1)).unwrap();
    assert!(matches!(queue.task(id(1)), Err(QueueError::NotFound(_))));
    assert!(matches!(queue.remove(id(1)), Err(QueueError::NotFound(_))));
    // Nothing of it is left.
    queue.add(&draft(1)).unwrap();
    assert!(queue.attempts(id(1)).unwrap().is_empty());
    assert!(queue.messages(id(1), 1, 0).unwrap().is_empty());
}

fn task_is_added_once<S: Store>(queue: &Queue<S>, _clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    let again = queue.add(&draft(1));
    assert!(matches!(again, Err(QueueError::Store(StoreError::Exists))), "{again:?}");
    let mut wrong = draft(2);
    wrong.spec.title = "a\nb".to_owned();
    assert!(matches!(queue.add(&wrong), Err(QueueError::Spec(_))));
    assert_eq!(queue.list(&Listing::default()).unwrap().tasks.len(), 1);
}

fn message(payload: &str) -> NewMessage {
    NewMessage { at: None, kind: "info".to_owned(), payload: format!("{payload:?}") }
}

fn messages_are_numbered_without_gaps<S: Store>(queue: &Queue<S>, clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    let holder = start(queue, 1);
    queue.append(&holder, &[message("a"), message("b")]).unwrap();
    let bad = NewMessage { payload: "{".to_owned(), ..message("") };
    refused(queue.append(&holder, &[message("c"), bad]));
    let other = Holder { token: token(7), ..holder };
    assert_eq!(refused(queue.append(&other, &[message("c")])), Refused::NotHolder);
    queue.append(&holder, &[message("c")]).unwrap();
    let shown = |from| {
        let messages = queue.messages(id(1), 1, from).unwrap();
        let shown = messages.iter().map(|message| (message.number, message.payload.clone()));
        shown.collect::<Vec<_>>()
    };
    let all = [(0, "\"a\""), (1, "\"b\""), (2, "\"c\"")];
    assert_eq!(shown(0), all.map(|(number, payload)| (number, payload.to_owned())));
    assert_eq!(shown(2).len(), 1);
    clock.advance(300);
    assert_eq!(refused(queue.append(&holder, &[message("d")])), Refused::LeaseExpired);
    let most = vec![message(""); NewMessage::MOST + 1];
    assert!(matches!(refused(queue.append(&holder, &most)), Refused::Invalid(_)));
}

fn pages_skip_no_task_that_was_added_at_the_same_time<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    for number in 1..=25 {
        queue.add(&draft(number)).unwrap();
        if number % 10 == 0 {
            clock.advance(1);
        }
    }
    let (mut seen, mut pages) = (HashSet::new(), 0);
    let mut listing = Listing { limit: 4, ..Listing::default() };
    loop {
        let page = queue.list(&listing).unwrap();
        assert!(page.tasks.is_sorted_by(|a, b| a.added_at >= b.added_at));
        seen.extend(page.tasks.iter().map(|task| task.id));
        pages += 1;
        match page.next {
            Some(next) => listing.before = Some(next),
            None => break,
        }
    }
    assert_eq!((seen.len(), pages), (25, 7));
    let holder = start(queue, 1);
    let running = Listing { statuses: vec![Status::Running], limit: 9, before: None };
    let tasks = queue.list(&running).unwrap().tasks;
    assert!(matches!(&tasks[..], [task] if task.id == holder.task));
}

fn output_that_is_not_json_is_refused<S: Store>(queue: &Queue<S>, _clock: &TestClock) {
    queue.add(&draft(1)).unwrap();
    let holder = start(queue, 1);
    for output in ["", "{", "{} {}", "NaN"] {
        let completion = Completion { output: output.to_owned(), ..completion() };
        assert!(matches!(refused(queue.complete(&holder, &completion)), Refused::Invalid(_)));
    }
    assert_eq!(queue.task(id(1)).unwrap().status, Status::Running);
}

fn attempt_that_is_over_is_kept_as_such_when_its_task_is_claimed<S: Store>(
    queue: &Queue<S>,
    clock: &TestClock,
) {
    queue.add(&draft(1)).unwrap();
    start(queue, 1);
    clock.advance(300);
    assert_eq!(queue.claim_task(id(1), &claim(2)).unwrap().holder.attempt, 2);
    let attempts = queue.attempts(id(1)).unwrap();
    let statuses = attempts.iter().map(|attempt| attempt.status);
    assert_eq!(statuses.collect::<Vec<_>>(), [AttemptStatus::TimedOut, AttemptStatus::Claimed]);
}

fn notes_are_found_by_their_beginnings_and_go_with_their_task<S: Store>(
    queue: &Queue<S>,
    _: &TestClock,
) {
    let task = queue.add(&draft(1)).unwrap().id;
    let note = |key: &str, content: &str| Note { key: key.to_owned(), content: content.to_owned() };
    let written = queue.store().write(|transaction| {
        transaction.set_note("a", &note("x/1", "one"), Some(task))?;
        transaction.set_note("a", &note("x/2", "two"), None)?;
        transaction.set_note("a", &note("x/2", "three"), None)?;
        transaction.set_note("a", &note("x_", "other"), None)?;
        transaction.set_note("b", &note("x/1", "of another kind"), None)?;
        let found = transaction.notes("a", "x/", "", 9)?;
        assert_eq!(found, [note("x/1", "one"), note("x/2", "three")]);
        assert_eq!(transaction.notes("a", "x/", "x/1", 9)?, [note("x/2", "three")]);
        assert_eq!(transaction.notes("a", "", "", 1)?, [note("x/1", "one")]);
        transaction.remove(task)?;
        assert_eq!(transaction.note("a", "x/1")?, None);
        assert_eq!(transaction.note("a", "x/2")?.as_deref(), Some("three"));
        Ok::<_, StoreError>(())
    });
    written.unwrap();
}

fn result_that_landed_stays_so_and_its_note_goes_with_the_task<S: Store>(
    queue: &Queue<S>,
    _: &TestClock,
) {
    queue.add(&draft(1)).unwrap();
    let landing = |state| Landing {
        state,
        onto: "main".to_owned(),
        at: "0".repeat(40),
        reason: Some("it is so".to_owned()),
    };
    let conflicts = landing(LandingState::Conflicting);
    assert!(matches!(refused(queue.set_landing(id(1), &conflicts)), Refused::Invalid(_)));
    let holder = start(queue, 1);
    queue.complete(&holder, &completion()).unwrap();
    assert_eq!(queue.landing(id(1)).unwrap(), None);
    queue.set_landing(id(1), &conflicts).unwrap();
    assert_eq!(queue.landing(id(1)).unwrap(), Some(conflicts.clone()));
    let landed = landing(LandingState::Landed);
    queue.set_landing(id(1), &landed).unwrap();
    queue.set_landing(id(1), &conflicts).unwrap();
    assert_eq!(queue.landings().unwrap().into_iter().collect::<Vec<_>>(), [(id(1), landed)]);
    queue.remove(id(1)).unwrap();
    assert!(queue.landings().unwrap().is_empty());
}

/// Makes a list of the promises, and a test of each one with an embedded store.
macro_rules! promises {
    ($($promise:ident,)*) => {
        /// A promise, and what tries it with a new store.
        const PROMISES: &[(&str, fn(&Queue<AnyStore>, &TestClock))] =
            &[$((stringify!($promise), $promise)),*];

        mod sqlite {
            use super::*;

            $(#[test]
            fn $promise() {
                let clock = TestClock::new();
                let store = SqliteStore::in_memory(Box::new(clock.clone())).unwrap();
                let queue = Queue::new(AnyStore::Local(store)).with_groups(super::wide());
                super::$promise(&queue, &clock);
            })*
        }
    };
}

promises! {
    task_is_worked_on_from_end_to_end,
    agent_reads_its_task_and_keeps_files_with_it,
    tasks_that_change_the_same_files_are_not_worked_on_at_once,
    tasks_of_a_group_are_worked_on_one_at_a_time,
    group_with_room_for_two_has_two_tasks_and_no_third,
    higher_priority_and_then_the_oldest_is_claimed_first,
    repeated_claim_returns_the_same_attempt,
    lost_worker_frees_its_task_and_its_late_result_is_refused,
    refused_change_is_not_saved,
    sweep_is_bounded_and_reaches_everything,
    expired_tasks_do_not_hold_up_a_claim,
    task_that_cannot_be_read_fails_and_holds_up_no_other,
    candidates_are_queued_tasks_that_may_run_and_are_not_placed,
    task_waits_for_those_that_it_depends_on,
    cancelled_task_tells_its_worker_and_takes_no_result,
    only_what_has_ended_is_removed,
    task_is_added_once,
    messages_are_numbered_without_gaps,
    pages_skip_no_task_that_was_added_at_the_same_time,
    output_that_is_not_json_is_refused,
    attempt_that_is_over_is_kept_as_such_when_its_task_is_claimed,
    notes_are_found_by_their_beginnings_and_go_with_their_task,
    result_that_landed_stays_so_and_its_note_goes_with_the_task,
}

/// A server takes seconds to make: it serves all promises, with a database for each.
#[test]
fn postgres_keeps_every_promise() {
    let Some(server) = Server::start("postgres_keeps_every_promise") else { return };
    for (name, promise) in PROMISES {
        println!("{name}");
        let clock = TestClock::new();
        let store = server.store(&server.database()).with_clock(Box::new(clock.clone()));
        let queue = Queue::new(AnyStore::Shared(Box::new(store), &[])).with_groups(wide());
        promise(&queue, &clock);
    }
}
