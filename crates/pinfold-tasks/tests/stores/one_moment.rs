//! Claims and results at one moment, and statements of which one fails.

use std::sync::Barrier;

use pinfold_tasks::{
    Completion, Holder, NewMessage, Queue, QueueError, Settled, Status, StoreError, Usage,
};
use pinfold_tasks_postgres::PostgresStore;

use crate::server::Server;
use crate::testing::{claim, draft, id};

fn completion(output: &str) -> Completion {
    Completion { output: output.to_owned(), usage: Usage::default() }
}

/// Returns a queue, and four more connections to it.
fn queues(server: &Server) -> (Queue<PostgresStore>, [Queue<PostgresStore>; 4]) {
    let database = server.database();
    let queue = || Queue::new(server.store(&database));
    (queue(), [(); 4].map(|()| queue()))
}

#[test]
fn claims_at_one_moment_of_tasks_that_change_the_same_give_away_one() {
    const ROUNDS: u128 = 20;
    let Some(server) = Server::start("claims_at_one_moment") else { return };
    let (queue, others) = queues(&server);
    let barrier = Barrier::new(others.len());
    for round in 0..ROUNDS {
        let first = round << 8;
        let touching = |number, glob: &str| {
            let mut draft = draft(first + number);
            draft.spec.touches = vec![glob.to_owned()];
            queue.add(&draft).unwrap().id
        };
        let (one, two) = (touching(0, "src/**"), touching(1, "src/main.rs"));
        let alone = queue.add(&draft(first + 2)).unwrap().id;
        // Two of them are one task, which two ask for.
        let claims = [one, two, alone, alone].into_iter().zip(&others).zip(first..);
        let claimed: Vec<Option<Holder>> = std::thread::scope(|scope| {
            let threads: Vec<_> = claims
                .map(|((task, other), number)| {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        match other.claim_attempt(task, 1, &claim(number), |_| Ok(true)) {
                            Ok(claimed) => Some(claimed.unwrap().holder),
                            Err(QueueError::Refused(_)) => None,
                            Err(error) => panic!("{error:?}"),
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let number_of = |claimed: &[Option<Holder>]| claimed.iter().flatten().count();
        assert_eq!([number_of(&claimed[..2]), number_of(&claimed[2..])], [1, 1], "{claimed:?}");
        for holder in claimed.iter().flatten() {
            queue.heartbeat(holder, None).unwrap();
            queue.complete(holder, &completion("1")).unwrap();
        }
    }
}

#[test]
fn results_at_one_moment_queue_what_waits_for_both() {
    const ROUNDS: u128 = 20;
    let Some(server) = Server::start("results_at_one_moment") else { return };
    let (queue, others) = queues(&server);
    let barrier = Barrier::new(others.len());
    for round in 0..ROUNDS {
        let first = round << 8;
        let start = |number| {
            queue.add(&draft(number)).unwrap();
            let claimed = queue.claim_attempt(id(number), 1, &claim(number), |_| Ok(true));
            let holder = claimed.unwrap().unwrap().holder;
            queue.heartbeat(&holder, None).unwrap();
            holder
        };
        let holders = [start(first), start(first + 1), start(first + 2)];
        // The third one has nothing that waits for it until its result is reported.
        let mut both = draft(first + 3);
        both.spec.depends = vec![id(first), id(first + 1)];
        queue.add(&both).unwrap();
        let mut late = draft(first + 4);
        late.spec.depends = vec![id(first + 2)];
        std::thread::scope(|scope| {
            for (holder, other) in holders.iter().zip(&others) {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    assert_eq!(other.complete(holder, &completion("1")).unwrap(), Settled::Now);
                });
            }
            scope.spawn(|| {
                barrier.wait();
                others[3].add(&late).unwrap();
            });
        });
        for number in [3, 4] {
            let task = queue.task(id(first + number)).unwrap();
            assert_eq!((task.status, task.waits_for), (Status::Queued, 0), "{round} {number}");
        }
    }
}

#[test]
fn statement_that_fails_among_several_is_named_and_undoes_all() {
    let Some(server) = Server::start("statement_that_fails") else { return };
    let database = server.database();
    let queue = Queue::new(server.store(&database));
    queue.add(&draft(1)).unwrap();
    let holder = queue.claim(&claim(1)).unwrap().unwrap().holder;
    server.0.sql(
        &database,
        "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF NEW.payload = '2' THEN RAISE EXCEPTION 'not %', NEW.payload; END IF; \
         IF NEW.payload = '3' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$; \
         CREATE TRIGGER no BEFORE INSERT ON pinfold.message FOR EACH ROW EXECUTE FUNCTION no(); \
         CREATE FUNCTION never() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no task'; END $$; \
         CREATE TRIGGER never BEFORE UPDATE ON pinfold.task FOR EACH ROW EXECUTE FUNCTION never(); \
         CREATE FUNCTION nor() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no attempt'; END $$; \
         CREATE TRIGGER nor BEFORE UPDATE ON pinfold.attempt FOR EACH ROW EXECUTE FUNCTION nor()",
    );
    let message = |payload: u32| NewMessage {
        at: None,
        kind: "text".to_owned(),
        payload: payload.to_string(),
    };
    let error = queue.heartbeat(&holder, None).unwrap_err();
    assert!(error.to_string().contains("no task"), "{error}");
    server.0.sql(&database, "DROP TRIGGER never ON pinfold.task");
    let error = queue.heartbeat(&holder, None).unwrap_err();
    assert!(error.to_string().contains("no attempt"), "{error}");
    assert_eq!(queue.task(id(1)).unwrap().status, Status::Dispatched);
    server.0.sql(&database, "DROP TRIGGER nor ON pinfold.attempt");
    queue.heartbeat(&holder, None).unwrap();
    for _ in 0..3 {
        let error = queue.append(&holder, &[0, 1, 2, 4, 3].map(message)).unwrap_err();
        assert!(error.to_string().contains("not 2"), "{error}");
        let error = queue.append(&holder, &[0, 1, 3, 4, 2].map(message)).unwrap_err();
        assert!(matches!(error, QueueError::Store(StoreError::Unreachable(_))), "{error:?}");
        assert!(queue.messages(holder.task, 1, 0).unwrap().is_empty());
    }
    let many: Vec<_> = (0..500).map(|number| message(number + 10)).collect();
    queue.append(&holder, &many).unwrap();
    let kept = queue.messages(holder.task, 1, 0).unwrap();
    let numbers: Vec<_> =
        kept.iter().map(|message| (message.number, message.payload.clone())).collect();
    let expected: Vec<_> = (0..500_u64).map(|number| (number, (number + 10).to_string())).collect();
    assert_eq!(numbers, expected);
}
