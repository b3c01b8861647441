use proptest::prelude::*;

use super::*;
use crate::attempt::Usage;
use crate::task::Timeouts;
use crate::testing::{claim, id, seconds, token};

const BEGINNING: u64 = 1_000_000;

/// Returns a time so many seconds after the beginning.
fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(BEGINNING + seconds * 1_000)
}

fn queued(max_attempts: u32) -> Record {
    Record::new(Task {
        id: id(1),
        title: "task".to_owned(),
        status: Status::Queued,
        priority: 0,
        attempts: 0,
        max_attempts,
        allowance: max_attempts,
        losses: 0,
        waits_for: 0,
        timeouts: Timeouts::default(),
        added_at: at(0),
        queued_at: at(0),
        updated_at: at(0),
        ended_at: None,
        expires_at: None,
        accepted: None,
        failure: None,
    })
}

/// Returns a task whose first attempt was started by the worker with token 1 at the beginning.
fn running(max_attempts: u32) -> Record {
    let mut record = queued(max_attempts);
    record.claim(&claim(1), at(0)).unwrap();
    record.heartbeat(1, token(1), None, at(0)).unwrap();
    record
}

fn completion(output: &str) -> Completion {
    Completion { output: output.to_owned(), usage: Usage::default() }
}

fn failure_code(record: &Record) -> &str {
    record.task.failure.as_ref().map_or("", |failure| failure.code.as_str())
}

#[test]
fn task_passes_through_its_states() {
    let mut record = queued(1);
    record.claim(&claim(1), at(1)).unwrap();
    assert_eq!(record.task.status, Status::Dispatched);
    let lease = record.heartbeat(1, token(1), None, at(2)).unwrap();
    assert_eq!(lease, Heartbeat::Renewed(seconds(300)));
    assert_eq!(record.task.status, Status::Running);
    assert_eq!(record.complete(1, token(1), completion("{}"), at(3)), Ok(Settled::Now));
    assert_eq!((record.task.status, record.task.accepted), (Status::Completed, Some(1)));
    assert_eq!(record.due(), None);
}

#[test]
fn task_is_claimed_by_one_worker() {
    let mut record = queued(3);
    record.claim(&claim(1), at(0)).unwrap();
    assert_eq!(record.claim(&claim(2), at(0)).unwrap_err(), Refused::NotQueued);
}

#[test]
fn result_needs_a_first_heartbeat() {
    let mut record = queued(1);
    record.claim(&claim(1), at(0)).unwrap();
    let refused = record.complete(1, token(1), completion("{}"), at(1));
    assert_eq!(refused, Err(Refused::NotStarted));
    let failure = Failure::new("x", "");
    assert_eq!(record.fail(1, token(1), failure, at(1)), Err(Refused::NotStarted));
    assert_eq!(record.abort(1, token(1), "", at(1)), Err(Refused::NotStarted));
}

#[test]
fn completion_at_the_end_of_the_lease_is_refused() {
    for (seconds, is_accepted) in [(299, true), (300, false), (10_000, false)] {
        let mut record = running(3);
        let settled = record.complete(1, token(1), completion("{}"), at(seconds));
        assert_eq!(settled.is_ok(), is_accepted, "{seconds}");
        let status = if is_accepted { Status::Completed } else { Status::Queued };
        assert_eq!(record.task.status, status);
    }
}

#[test]
fn late_completion_is_refused_while_another_worker_runs() {
    let mut record = running(3);
    record.claim(&claim(2), at(400)).unwrap();
    record.heartbeat(2, token(2), None, at(401)).unwrap();
    let late = record.complete(1, token(1), completion("{}"), at(402));
    assert_eq!(late, Err(Refused::LeaseExpired));
    assert_eq!(record.complete(2, token(2), completion("[]"), at(403)), Ok(Settled::Now));
    assert_eq!(record.task.accepted, Some(2));
}

#[test]
fn token_of_another_worker_is_refused() {
    let mut record = running(3);
    let refused = Err(Refused::NotHolder);
    assert_eq!(record.complete(1, token(2), completion("{}"), at(1)), refused);
    assert_eq!(record.heartbeat(1, token(2), None, at(1)), Err(Refused::NotHolder));
    assert_eq!(
        record.complete(2, token(1), completion("{}"), at(1)),
        Err(Refused::NoSuchAttempt(2))
    );
    assert_eq!(record.heartbeat(0, token(1), None, at(1)), Err(Refused::NoSuchAttempt(0)));
}

#[test]
fn repeated_result_is_accepted_once_and_another_one_refused() {
    let mut record = running(1);
    assert_eq!(record.complete(1, token(1), completion("1"), at(1)), Ok(Settled::Now));
    assert_eq!(record.complete(1, token(1), completion("1"), at(900)), Ok(Settled::Before));
    let other = record.complete(1, token(1), completion("2"), at(900));
    assert_eq!(other, Err(Refused::OtherResult));
    assert_eq!(record.attempt.unwrap().completion, Some(completion("1")));
}

#[test]
fn heartbeats_extend_the_lease_but_not_the_whole_time() {
    let mut record = running(2);
    for minute in 1..120 {
        let granted = record.heartbeat(1, token(1), None, at(60 * minute)).unwrap();
        let left = seconds(60 * (120 - minute));
        assert_eq!(granted, Heartbeat::Renewed(left.min(Lease::TTL)));
    }
    let refused = record.heartbeat(1, token(1), None, at(7_200));
    assert_eq!(refused, Err(Refused::LeaseExpired));
    let attempt = record.attempt.as_ref().unwrap();
    assert_eq!(attempt.failure.as_ref().unwrap().code, code::RUNNING_TOTAL_EXCEEDED);
    assert_eq!((record.task.status, record.task.losses), (Status::Queued, 0));
}

#[test]
fn claim_without_heartbeat_is_taken_back() {
    let mut record = queued(1);
    record.claim(&claim(1), at(0)).unwrap();
    record.pass_time(at(299));
    assert_eq!(record.task.status, Status::Dispatched);
    record.pass_time(at(300));
    assert_eq!(record.task.status, Status::Failed);
    assert_eq!(failure_code(&record), code::DISPATCH_EXPIRED);
}

#[test]
fn first_heartbeat_after_a_short_lease_is_refused() {
    let mut record = queued(1);
    record.claim(&Claim { ttl: seconds(10), ..claim(1) }, at(0)).unwrap();
    let refused = record.heartbeat(1, token(1), None, at(10));
    assert_eq!(refused, Err(Refused::LeaseExpired));
}

#[test]
fn task_that_costs_three_workers_is_quarantined() {
    let mut record = queued(20);
    for lost in 1..=QUARANTINE_AFTER {
        let begin = at(1_000 * u64::from(lost));
        record.claim(&claim(lost.into()), begin).unwrap();
        record.heartbeat(lost, token(lost.into()), None, begin).unwrap();
        record.pass_time(begin + seconds(300));
    }
    assert_eq!((record.task.status, failure_code(&record)), (Status::Failed, code::QUARANTINED));
    record.retry(at(9_000)).unwrap();
    assert_eq!((record.task.status, record.task.losses), (Status::Queued, 0));
    assert_eq!(record.task.max_attempts, 23);
}

#[test]
fn worker_that_reports_ends_the_row_of_losses() {
    let mut record = queued(20);
    for attempt in 1..=9 {
        let begin = at(1_000 * u64::from(attempt));
        record.claim(&claim(attempt.into()), begin).unwrap();
        record.heartbeat(attempt, token(attempt.into()), None, begin).unwrap();
        if attempt % 3 == 0 {
            let failure = Failure::new("flaky", "");
            record.fail(attempt, token(attempt.into()), failure, begin).unwrap();
        } else {
            record.pass_time(begin + seconds(300));
        }
    }
    assert_eq!(record.task.status, Status::Queued);
}

#[test]
fn failure_decides_whether_the_task_is_queued_again() {
    for (retryable, expected) in
        [(Some(true), Status::Queued), (None, Status::Queued), (Some(false), Status::Failed)]
    {
        let mut record = running(2);
        let failure = Failure { retryable, ..Failure::new("x", "") };
        record.fail(1, token(1), failure, at(1)).unwrap();
        assert_eq!(record.task.status, expected, "{retryable:?}");
    }
    let mut record = running(1);
    record.fail(1, token(1), Failure::new("x", "no"), at(1)).unwrap();
    assert_eq!((record.task.status, failure_code(&record)), (Status::Failed, "x"));
}

#[test]
fn aborted_attempt_is_not_a_cancelled_task() {
    let mut record = running(2);
    record.abort(1, token(1), "shutting down", at(1)).unwrap();
    assert_eq!(record.task.status, Status::Queued);
    assert_eq!(record.abort(1, token(1), "shutting down", at(2)), Ok(Settled::Before));
    let attempt = record.attempt.unwrap();
    assert_eq!(attempt.status, AttemptStatus::Aborted);
    assert_eq!(attempt.failure.unwrap().code, code::WORKER_ABORTED);
}

#[test]
fn cancellation_wins_over_a_later_result() {
    let mut record = running(3);
    record.cancel("not wanted", at(1)).unwrap();
    let answer = record.heartbeat(1, token(1), None, at(2));
    assert_eq!(answer, Ok(Heartbeat::Cancelled("not wanted".to_owned())));
    let late = record.complete(1, token(1), completion("{}"), at(3));
    assert_eq!(late, Err(Refused::Ended(Status::Cancelled)));
    assert_eq!(record.cancel("again", at(4)), Err(Refused::Ended(Status::Cancelled)));
    record.retry(at(5)).unwrap();
    // The worker of the cancelled attempt stays out.
    let late = record.complete(1, token(1), completion("{}"), at(6));
    assert_eq!(late, Err(Refused::LeaseExpired));
}

#[test]
fn retried_task_waits_for_the_lease_of_its_cancelled_attempt() {
    let mut record = running(3);
    record.cancel("", at(10)).unwrap();
    record.retry(at(20)).unwrap();
    assert_eq!(record.claim(&claim(2), at(299)).unwrap_err(), Refused::NotQueued);
    assert_eq!(record.due(), Some(at(300)));
    record.claim(&claim(2), at(300)).unwrap();
    // A worker that reported its end is not waited for.
    let mut record = running(1);
    record.fail(1, token(1), Failure::new("x", ""), at(10)).unwrap();
    record.retry(at(20)).unwrap();
    assert_eq!(record.task.status, Status::Queued);
}

#[test]
fn only_a_task_without_result_is_tried_again() {
    let mut record = running(1);
    assert_eq!(record.retry(at(1)), Err(Refused::NotEnded(Status::Running)));
    record.complete(1, token(1), completion("{}"), at(2)).unwrap();
    assert_eq!(record.retry(at(3)), Err(Refused::NotEnded(Status::Completed)));
}

#[test]
fn task_that_nobody_begins_expires() {
    let mut record = queued(1);
    record.task.expires_at = Some(at(100));
    assert_eq!(record.claim(&claim(1), at(100)).unwrap_err(), Refused::Ended(Status::Expired));
    assert_eq!(failure_code(&record), code::TASK_EXPIRED);
    // One that is lost after that time is not begun again.
    let mut record = running(5);
    record.task.expires_at = Some(at(100));
    record.pass_time(at(299));
    assert_eq!(record.task.status, Status::Running);
    record.pass_time(at(300));
    assert_eq!(record.task.status, Status::Expired);
}

#[test]
fn dependencies_are_waited_for_also_after_a_retry() {
    let mut record = queued(1);
    (record.task.status, record.task.waits_for) = (Status::Waiting, 2);
    assert_eq!(record.claim(&claim(1), at(0)).unwrap_err(), Refused::NotQueued);
    record.dependency_completed(at(1));
    record.cancel("", at(2)).unwrap();
    record.retry(at(3)).unwrap();
    assert_eq!(record.task.status, Status::Waiting);
    record.dependency_completed(at(4));
    assert_eq!((record.task.status, record.task.queued_at), (Status::Queued, at(4)));
}

#[test]
fn clock_that_is_set_back_does_not_shorten_a_lease() {
    let mut record = queued(1);
    record.claim(&claim(1), at(5_000)).unwrap();
    let renewed = record.heartbeat(1, token(1), None, at(10)).unwrap();
    assert_eq!(renewed, Heartbeat::Renewed(seconds(300)));
    assert_eq!(record.attempt.unwrap().lease_until, at(5_300));
    assert_eq!(record.task.updated_at, at(5_000));
}

#[test]
fn lengths_of_leases_are_bounded() {
    let mut record = queued(1);
    record.claim(&Claim { ttl: Duration::MAX, ..claim(1) }, at(0)).unwrap();
    assert_eq!(record.attempt.as_ref().unwrap().lease_until, at(3_600));
    record.heartbeat(1, token(1), Some(Duration::ZERO), at(0)).unwrap();
    assert_eq!(record.attempt.as_ref().unwrap().lease_until, at(1));
}

/// Something that may be asked of a task.
#[derive(Clone, Debug)]
enum Step {
    Claim,
    Heartbeat(u32, u8),
    Complete(u32, u8),
    Fail(u32, u8, Option<bool>),
    Abort(u32, u8),
    Cancel,
    Retry,
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let holder = || (0..6_u32, 0..6_u8);
    prop_oneof![
        4 => Just(Step::Claim),
        6 => holder().prop_map(|(number, token)| Step::Heartbeat(number, token)),
        2 => holder().prop_map(|(number, token)| Step::Complete(number, token)),
        2 => (holder(), any::<Option<bool>>()).prop_map(|((n, t), r)| Step::Fail(n, t, r)),
        1 => holder().prop_map(|(number, token)| Step::Abort(number, token)),
        1 => Just(Step::Cancel),
        1 => Just(Step::Retry),
        4 => Just(Step::Wait),
    ]
}

proptest! {
    /// Whatever is asked, in whatever order: counts stay within bounds, a terminal state has no active attempt, what
    /// is accepted stays, and a refusal changes nothing but what time alone changes.
    #[test]
    fn state_machine_keeps_its_invariants(
        steps in prop::collection::vec((step(), 0..400_u64), 1..60)
    ) {
        let mut record = queued(3);
        let (mut now, mut claims) = (0, 0_u128);
        let mut accepted = None;
        for (step, wait) in steps {
            now += wait;
            let now = at(now);
            let mut aged = record.clone();
            aged.pass_time(now);
            // The claim with number n has token n.
            let refused = match step {
                Step::Claim => {
                    let refused = record.claim(&claim(claims + 1), now).err();
                    claims += u128::from(refused.is_none());
                    refused
                }
                Step::Heartbeat(n, t) => record.heartbeat(n, token(t.into()), None, now).err(),
                Step::Complete(n, t) => {
                    let output = completion(&t.to_string());
                    record.complete(n, token(t.into()), output, now).err()
                }
                Step::Fail(n, t, retryable) => {
                    let failure = Failure { retryable, ..Failure::new("x", "") };
                    record.fail(n, token(t.into()), failure, now).err()
                }
                Step::Abort(n, t) => record.abort(n, token(t.into()), "", now).err(),
                Step::Cancel => record.cancel("", now).err(),
                Step::Retry => record.retry(now).err(),
                Step::Wait => {
                    record.pass_time(now);
                    None
                }
            };
            if refused.is_some() {
                prop_assert_eq!(&record, &aged);
            }
            let task = &record.task;
            prop_assert!(task.attempts <= task.max_attempts);
            prop_assert_eq!(u128::from(task.attempts), claims);
            prop_assert!(record.due().is_none_or(|due| due > now), "{:?}", record);
            let is_active = record.attempt.as_ref().is_some_and(|one| one.status.is_active());
            let is_held = matches!(task.status, Status::Dispatched | Status::Running);
            prop_assert_eq!(is_active, is_held);
            prop_assert_eq!(task.ended_at.is_some(), task.status.is_terminal());
            if let Some(before) = accepted {
                prop_assert_eq!(task.accepted, Some(before));
            }
            accepted = task.accepted;
            prop_assert_eq!(accepted.is_some(), task.status == Status::Completed);
        }
    }
}
