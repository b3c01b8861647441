use super::*;

const TERMS: Terms = Terms { patience: Duration::from_secs(20), waits: false };

fn pending(approvals: &Approvals) -> Pending {
    Pending {
        id: approvals.number(),
        subject: Subject::Connection {
            host: "example.com".to_owned(),
            port: 443,
            protocol: "tls".to_owned(),
        },
        details: Vec::new(),
        rule: None,
    }
}

/// Asks on a thread of its own.
fn asked(
    approvals: &Arc<Approvals>,
    terms: Terms,
) -> (u64, std::thread::JoinHandle<Result<Answered, NoAnswer>>) {
    let request = pending(approvals);
    let (id, approvals) = (request.id, Arc::clone(approvals));
    let waiting = Arc::clone(&approvals);
    let handle = std::thread::spawn(move || approvals.ask(request, terms, || false));
    while !waiting.pending().iter().any(|one| one.id == id) && !handle.is_finished() {
        std::thread::yield_now();
    }
    (id, handle)
}

#[test]
fn request_without_an_approver_does_not_wait() {
    let approvals = Arc::new(Approvals::default());
    assert_eq!(asked(&approvals, TERMS).1.join().unwrap(), Err(NoAnswer::Nobody));
    let approver = approvals.attend().unwrap();
    let (_, last) = asked(&approvals, TERMS);
    drop(approver);
    assert_eq!(last.join().unwrap(), Err(NoAnswer::Nobody), "the last one has gone");
}

#[test]
fn a_run_that_waits_is_answered_by_who_comes_later() {
    let approvals = Arc::new(Approvals::default());
    let (id, handle) = asked(&approvals, Terms { waits: true, ..TERMS });
    drop(approvals.answer(id, Answer::Once, "ada").unwrap());
    let answered = Answered { answer: Answer::Once, by: "ada".to_owned() };
    assert_eq!(handle.join().unwrap(), Ok(answered));
    assert_eq!(approvals.answer(id, Answer::Once, "ada").err(), Some(AnswerError::Unknown(id)));
}

#[test]
fn silence_denies_when_the_time_is_over() {
    let approvals = Arc::new(Approvals::default());
    let terms = Terms { patience: Duration::from_millis(30), waits: true };
    assert_eq!(asked(&approvals, terms).1.join().unwrap(), Err(NoAnswer::Late));
}

#[test]
fn the_oldest_of_too_many_is_denied() {
    let approvals = Arc::new(Approvals::default());
    let _approver = approvals.attend().unwrap();
    let mut all: Vec<_> = (0..=MOST).map(|_| asked(&approvals, TERMS)).collect();
    assert_eq!(all.remove(0).1.join().unwrap(), Err(NoAnswer::Crowded));
    assert_eq!(approvals.pending().len(), MOST);
    approvals.end();
    for (_, handle) in all {
        assert_eq!(handle.join().unwrap(), Err(NoAnswer::Over));
    }
}

#[test]
fn command_that_no_rule_can_express_is_not_saved_as_one() {
    let approvals = Arc::new(Approvals::default());
    let (id, handle) = asked(&approvals, Terms { waits: true, ..TERMS });
    assert_eq!(approvals.answer(id, Answer::Always, "ada").err(), Some(AnswerError::NoRule));
    drop(approvals.answer(id, Answer::Deny { reason: None }, "ada").unwrap());
    assert!(handle.join().unwrap().is_ok());
}

#[test]
fn of_two_answers_the_first_counts() {
    let approvals = Arc::new(Approvals::default());
    let _approver = approvals.attend().unwrap();
    let (id, handle) = asked(&approvals, TERMS);
    let answers: Vec<_> =
        (0..2).map(|_| approvals.answer(id, Answer::Once, "ada").is_ok()).collect();
    assert_eq!(answers, [true, false]);
    assert!(handle.join().unwrap().is_ok());
}

/// The client that asked may be the last that keeps the session from its end, and then a reply would not arrive.
#[test]
fn answer_reaches_who_asked_after_its_reply_and_no_other_counts_until_then() {
    let approvals = Arc::new(Approvals::default());
    let approver = approvals.attend().unwrap();
    let terms = Terms { patience: Duration::from_millis(300), waits: false };
    let (id, handle) = asked(&approvals, terms);
    let counted = approvals.answer(id, Answer::Session, "ada").unwrap();
    // Neither its time, nor that nobody is there any more, changes what counts.
    drop(approver);
    std::thread::sleep(Duration::from_millis(500));
    assert!(!handle.is_finished() && approvals.pending().is_empty());
    let second = approvals.answer(id, Answer::Deny { reason: None }, "eve").err();
    assert_eq!(second, Some(AnswerError::Unknown(id)));
    drop(counted);
    assert_eq!(handle.join().unwrap().unwrap().answer, Answer::Session);
    // The end of the session waits for nobody.
    let (id, handle) = asked(&approvals, Terms { waits: true, ..TERMS });
    let counted = approvals.answer(id, Answer::Once, "ada").unwrap();
    approvals.end();
    assert_eq!(handle.join().unwrap(), Err(NoAnswer::Over));
    drop(counted);
}
