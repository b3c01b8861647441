//! What many processes do at once with one database, by chance.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pinfold_tasks::{
    Claimed, Completion, Draft, Failure, GroupLimits, Holder, Listing, NewMessage, Queue,
    QueueError, Settled, Status, Store as _, Task, TaskId, Transaction as _, Usage,
};
use pinfold_tasks_postgres::PostgresStore;

use crate::server::Server;
use crate::testing::{TestClock, claim, draft, id, seconds};

/// How many tasks there are at first.
const FIRST: u64 = 60;
/// How much each thread does.
const STEPS: u32 = 60;

fn completion(output: &str) -> Completion {
    Completion { output: output.to_owned(), usage: Usage::default() }
}

/// Returns what was done; none if the task's state did not allow it. A store never fails here.
fn allowed<T>(done: Result<T, QueueError>) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(QueueError::Refused(_) | QueueError::NotFound(_)) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// What all threads know.
struct Known<'a> {
    server: &'a Server,
    database: String,
    clock: TestClock,
    /// How many tasks were added.
    added: AtomicU64,
    tokens: AtomicU64,
    drafts: Mutex<HashMap<TaskId, Draft>>,
    /// The token that each attempt was claimed with.
    claims: Mutex<HashMap<(TaskId, u32), u128>>,
    results: Mutex<HashMap<TaskId, (u32, String)>>,
    /// Attempts whose results several threads report.
    shared: Mutex<Vec<Holder>>,
}

impl<'a> Known<'a> {
    fn new(server: &'a Server) -> Self {
        Self {
            server,
            database: server.database(),
            clock: TestClock::new(),
            added: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            drafts: Mutex::default(),
            claims: Mutex::default(),
            results: Mutex::default(),
            shared: Mutex::default(),
        }
    }

    fn queue(&self) -> Queue<PostgresStore> {
        let store = self.server.store(&self.database).with_clock(Box::new(self.clock.clone()));
        let limits = [("two".to_owned(), 2)].into_iter().collect();
        Queue::new(store).with_groups(GroupLimits::new(limits))
    }

    fn any(&self, random: &mut fastrand::Rng) -> TaskId {
        id(random.u64(..self.added.load(Ordering::SeqCst)).into())
    }

    fn add(&self, queue: &Queue<PostgresStore>, random: &mut fastrand::Rng) {
        let before = self.added.load(Ordering::SeqCst);
        let number = self.added.fetch_add(1, Ordering::SeqCst);
        let mut draft = draft(number.into());
        let spec = &mut draft.spec;
        for _ in 0..random.usize(..3) {
            if before > 0 {
                // Late ones: those are worked on.
                let back = random.u64(1..=before.min(25));
                spec.depends.push(id((before - back).into()));
            }
        }
        spec.depends.sort();
        spec.depends.dedup();
        if random.u8(..3) == 0 {
            let globs = ["a/**", "a/b.rs", "b/**", "c/d*.rs", "c/e.rs"];
            spec.touches.push(globs[random.usize(..globs.len())].to_owned());
        }
        match random.u8(..8) {
            0 => spec.group = Some("one".to_owned()),
            1 | 2 => spec.group = Some("two".to_owned()),
            _ => {}
        }
        draft.expires_after = (random.u8(..6) == 0).then(|| seconds(random.u64(1..400)));
        self.drafts.lock().unwrap().insert(draft.id, draft.clone());
        allowed(queue.add(&draft));
    }

    fn took(&self, claimed: &Claimed, token: u128) {
        let holder = &claimed.holder;
        let before = self.claims.lock().unwrap().insert((holder.task, holder.attempt), token);
        assert!(before.is_none_or(|before| before == token), "{holder:?} was given away twice");
    }

    fn claim(&self, queue: &Queue<PostgresStore>, random: &mut fastrand::Rng) -> Option<Holder> {
        let number = u128::from(self.tokens.fetch_add(1, Ordering::SeqCst)) + (1 << 64);
        let claim = claim(number);
        let claimed = if random.u8(..5) == 0 {
            allowed(queue.claim(&claim))?
        } else {
            let candidates = allowed(queue.candidates(30, 8, &|_, _| false))?;
            let chosen = random.choice(candidates)?;
            allowed(queue.claim_attempt(chosen.task, chosen.attempt, &claim, |_| Ok(true)))?
        }?;
        self.took(&claimed, number);
        if random.u8(..4) == 0
            && let Some(Some(again)) = allowed(queue.claim_attempt(
                claimed.holder.task,
                claimed.holder.attempt,
                &claim,
                |_| Ok(true),
            ))
        {
            assert_eq!(again.holder, claimed.holder);
        }
        Some(claimed.holder)
    }

    fn complete(&self, queue: &Queue<PostgresStore>, holder: &Holder, output: &str) {
        match allowed(queue.complete(holder, &completion(output))) {
            Some(Settled::Now) => {
                let value = (holder.attempt, output.to_owned());
                let before = self.results.lock().unwrap().insert(holder.task, value);
                assert!(before.is_none(), "{holder:?} was completed twice");
            }
            Some(Settled::Before) | None => {}
        }
    }

    fn work(&self, queue: &Queue<PostgresStore>, random: &mut fastrand::Rng, me: u64) {
        let Some(holder) = self.claim(queue, random) else { return };
        if random.u8(..12) == 0 {
            return;
        }
        if allowed(queue.heartbeat(&holder, None)).is_none() {
            return;
        }
        let messages: Vec<_> = (0..random.usize(..4))
            .map(|number| NewMessage {
                at: None,
                kind: "text".to_owned(),
                payload: number.to_string(),
            })
            .collect();
        allowed(queue.append(&holder, &messages));
        match random.u8(..14) {
            0 => drop(allowed(queue.fail(&holder, &Failure::new("no", "no")))),
            1 => drop(allowed(queue.abort(&holder, "ends"))),
            2 => {}
            3..6 => {
                let mut shared = self.shared.lock().unwrap();
                shared.push(holder);
                shared.push(holder);
            }
            _ => {
                let output = format!("\"{me}\"");
                self.complete(queue, &holder, &output);
                self.complete(queue, &holder, &output);
            }
        }
    }

    fn step(&self, queue: &Queue<PostgresStore>, random: &mut fastrand::Rng, me: u64) {
        match random.u8(..30) {
            0 | 1 => drop(allowed(queue.cancel(self.any(random), "no"))),
            2 | 3 => drop(allowed(queue.retry(self.any(random)))),
            4 => drop(allowed(queue.remove(self.any(random)))),
            5 => drop(allowed(queue.sweep(10))),
            6 => self.clock.advance(random.u64(1..20)),
            7..11 => self.add(queue, random),
            11..16 => {
                let holder = self.shared.lock().unwrap().pop();
                if let Some(holder) = holder {
                    self.complete(queue, &holder, &format!("\"{me}\""));
                }
            }
            _ => self.work(queue, random, me),
        }
    }

    /// Looks at what is worked on at one moment.
    fn check_busy(&self, queue: &Queue<PostgresStore>) {
        let listing = Listing {
            statuses: vec![Status::Dispatched, Status::Running],
            before: None,
            limit: 1000,
        };
        let busy = queue.store().read(|transaction| transaction.list(&listing)).unwrap();
        let drafts = self.drafts.lock().unwrap();
        let specs: Vec<_> = busy.iter().map(|task| (task.id, &drafts[&task.id].spec)).collect();
        for (number, (one, spec)) in specs.iter().enumerate() {
            for (two, other) in &specs[number + 1..] {
                assert!(!spec.may_overlap(other), "{one} and {two} change the same");
            }
        }
        for (group, most) in [("one", 1), ("two", 2)] {
            let its = specs.iter().filter(|(_, spec)| spec.group.as_deref() == Some(group)).count();
            assert!(its <= most, "{its} of {group}");
        }
    }

    fn work_on_the_rest(&self, queue: &Queue<PostgresStore>) {
        self.clock.advance(100_000);
        while queue.sweep(100).unwrap() > 0 {}
        for number in 1 << 80.. {
            let Some(claimed) = queue.claim(&claim(number)).unwrap() else { return };
            self.took(&claimed, number);
            queue.heartbeat(&claimed.holder, None).unwrap();
            self.complete(queue, &claimed.holder, "\"rest\"");
        }
    }

    fn check_all(&self, queue: &Queue<PostgresStore>) {
        let drafts = self.drafts.lock().unwrap();
        let tasks: HashMap<TaskId, Task> =
            drafts.keys().filter_map(|id| Some((*id, allowed(queue.task(*id))?))).collect();
        for (id, task) in &tasks {
            self.check_attempts(queue, task);
            let needs = &drafts[id].spec.depends;
            if !needs.iter().all(|needs| tasks.contains_key(needs)) {
                continue;
            }
            let is_open = |needs: &&TaskId| tasks[needs].status != Status::Completed;
            let open = needs.iter().filter(is_open).count();
            assert_eq!(task.waits_for as usize, open, "{task:?}");
            assert!(task.status != Status::Queued, "{task:?}");
            assert!(task.status != Status::Waiting || open > 0, "{task:?}");
        }
    }

    fn check_attempts(&self, queue: &Queue<PostgresStore>, task: &Task) {
        let results = self.results.lock().unwrap();
        let accepted = results.get(&task.id);
        assert_eq!(task.status == Status::Completed, accepted.is_some(), "{task:?}");
        assert_eq!(task.accepted, accepted.map(|(number, _)| *number), "{task:?}");
        let attempts = queue.attempts(task.id).unwrap();
        let mut times = vec![task.added_at];
        for attempt in &attempts {
            let its = [Some(attempt.claimed_at), attempt.started_at, attempt.ended_at];
            times.extend(its.into_iter().flatten());
            let output = attempt.completion.as_ref().map(|completion| &completion.output);
            let expected = accepted.filter(|(number, _)| *number == attempt.number);
            assert_eq!(output, expected.map(|(_, output)| output), "{task:?}");
            let messages = queue.messages(task.id, attempt.number, 0).unwrap();
            assert!(messages.iter().map(|message| message.number).eq(0..messages.len() as u64));
        }
        times.push(task.updated_at);
        assert!(times.is_sorted(), "{task:?} {attempts:?}");
        assert!(attempts.iter().map(|attempt| attempt.number).eq(1..=task.attempts), "{task:?}");
    }
}

#[test]
fn what_many_do_at_once_breaks_no_promise() {
    const SEED: u64 = 1;
    let Some(server) = Server::start("what_many_do_at_once") else { return };
    let known = Known::new(&server);
    let queue = known.queue();
    let mut random = fastrand::Rng::with_seed(SEED);
    for _ in 0..FIRST {
        known.add(&queue, &mut random);
    }
    std::thread::scope(|scope| {
        let all = [0, 1, 2, 3, 4, 5, 6, 7].map(|me: u64| {
            let known = &known;
            scope.spawn(move || {
                let (queue, mut random) =
                    (known.queue(), fastrand::Rng::with_seed(me + 100 * SEED));
                for _ in 0..STEPS {
                    known.step(&queue, &mut random, me);
                }
            })
        });
        while all.iter().any(|thread| !thread.is_finished()) {
            known.check_busy(&queue);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let during = known.results.lock().unwrap().len();
    println!("{during} tasks were completed at once");
    assert!(during > 10, "{during} tasks were completed at once");
    known.work_on_the_rest(&queue);
    known.check_all(&queue);
}
