//! The dispatcher and the worker of a node against a real store and a scheduler that answers as a test wants.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use pinfold_cluster::{
    DispatchError, DispatchEvent, Dispatcher, JOB_LOST, JOB_REFUSED, Job, JobId, JobMaker, JobName,
    JobRequest, JobState, PlacedAttempt, RunId, Scheduler, SchedulerError, SecretVariable,
    TicketKey,
};
use pinfold_host::Refusal;
use pinfold_tasks::{
    Answer, AttemptStatus, Claim, Completion, Draft, Failure, Holder, Note, Queue, Request,
    Source as _, SqliteStore, Status, Stop, Store as _, SystemClock, TaskId, TaskSpec, Token,
    Transaction as _, Usage,
};
use zeroize::Zeroizing;

const TTL: Duration = Duration::from_secs(60);

/// A scheduler that answers what a test wants.
struct Script {
    jobs: RefCell<Vec<(JobName, JobState)>>,
    /// What it answers instead.
    error: RefCell<Option<SchedulerError>>,
    /// Whether jobs are not what was submitted.
    is_changed: Cell<bool>,
}

impl Script {
    fn new() -> Self {
        let is_changed = Cell::new(false);
        Self { jobs: RefCell::default(), error: RefCell::default(), is_changed }
    }

    fn check(&self) -> Result<(), SchedulerError> {
        self.error.borrow().clone().map_or(Ok(()), Err)
    }

    fn set(&self, job: usize, state: JobState) {
        self.jobs.borrow_mut()[job].1 = state;
    }
}

fn place_of(id: &JobId) -> usize {
    id.0.parse().unwrap()
}

impl Scheduler for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError> {
        self.check()?;
        let mut jobs = self.jobs.borrow_mut();
        jobs.push((request.name, JobState::Waiting));
        Ok(JobId((jobs.len() - 1).to_string()))
    }

    fn find(&self, name: &JobName) -> Result<Vec<JobId>, SchedulerError> {
        self.check()?;
        let jobs = self.jobs.borrow();
        let found = jobs.iter().enumerate().filter(|(_, (its, _))| its == name);
        Ok(found.map(|(index, _)| JobId(index.to_string())).collect())
    }

    fn find_submitted(&self, request: &JobRequest) -> Result<Vec<JobId>, SchedulerError> {
        if self.is_changed.get() {
            return Err(SchedulerError::Refused("its command is another".to_owned()));
        }
        self.find(&request.name)
    }

    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError> {
        self.check()?;
        Ok(jobs.iter().map(|job| self.jobs.borrow()[place_of(&job.id)].1.clone()).collect())
    }

    fn cancel(&self, job: &Job) -> Result<(), SchedulerError> {
        self.check()?;
        self.set(place_of(&job.id), JobState::Ended("CANCELLED".to_owned()));
        Ok(())
    }

    fn output(&self, _: &JobName) -> String {
        "what it printed\n".to_owned()
    }

    fn no_output(&self) -> &'static str {
        ""
    }

    fn clean_up(&self, _: &JobName) {}
}

/// Jobs that get a secret, or none.
struct Jobs(Option<&'static str>);

impl JobMaker for Jobs {
    fn job(&self, name: &JobName, spec: &TaskSpec) -> JobRequest {
        JobRequest {
            name: *name,
            command: Vec::new(),
            environment: Vec::new(),
            state: PathBuf::new(),
            cpus: None,
            memory: None,
            longest: spec.timeouts.running,
        }
    }

    fn has_secrets(&self) -> bool {
        self.0.is_some()
    }

    fn secrets(&self) -> Result<Vec<SecretVariable>, Refusal> {
        let variable = |value: &str| SecretVariable {
            name: "KEY".to_owned(),
            value: Zeroizing::new(value.to_owned()),
        };
        Ok(self.0.map(variable).into_iter().collect())
    }
}

fn queue() -> Queue<SqliteStore> {
    Queue::new(SqliteStore::in_memory(Box::new(SystemClock)).unwrap())
}

/// Queues a task. Of those of one moment, which the queue orders by id, the earlier one comes first.
fn add(queue: &Queue<SqliteStore>) -> TaskId {
    static ADDED: AtomicU8 = AtomicU8::new(1);
    let id = TaskId::from_random([ADDED.fetch_add(1, Ordering::Relaxed); 16]);
    queue.add(&Draft { id, spec: TaskSpec::new("t", "b"), expires_after: None }).unwrap();
    id
}

fn claim() -> Request {
    let token = Token::generate().unwrap();
    Request::Claim(Claim { token, worker: "node".to_owned(), ttl: TTL })
}

/// Claims the attempt of a job, if it can.
fn claimed(queue: &Queue<SqliteStore>, name: JobName, key: Option<String>) -> Option<Holder> {
    match PlacedAttempt::new(queue, name, key).ask(&claim(), TTL).unwrap() {
        Answer::Claimed(claimed) => claimed.map(|claimed| claimed.holder),
        other => panic!("{other:?}"),
    }
}

/// Returns the run of the first placement.
fn run_of_placement(queue: &Queue<SqliteStore>) -> RunId {
    let note = queue.store().read(|transaction| {
        transaction.notes("placement", "", "", 9).map(|notes| notes[0].clone())
    });
    let note: Note = note.map_err(|error: pinfold_tasks::StoreError| error).unwrap();
    let placement: serde_json::Value = serde_json::from_str(&note.content).unwrap();
    placement["run"].as_str().unwrap().parse().unwrap()
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Runs a test with a dispatcher, and returns what was reported.
fn with_dispatcher(
    queue: &Queue<SqliteStore>,
    script: &Script,
    jobs: &Jobs,
    test: impl FnOnce(&mut Dispatcher<'_, SqliteStore, Script>),
) -> Vec<String> {
    let said = RefCell::new(Vec::new());
    let observer = |event: &DispatchEvent<'_>| said.borrow_mut().push(format!("{event:?}"));
    test(&mut Dispatcher::new(queue, script, jobs, 10, &observer));
    said.into_inner()
}

#[test]
fn job_claims_its_own_attempt_once_and_no_other() {
    let (queue, script) = (queue(), Script::new());
    let (first, second) = (add(&queue), add(&queue));
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        assert_eq!(dispatcher.step(seconds(0)).unwrap().live, 2);
    });
    let name = script.jobs.borrow()[0].0;
    assert_eq!((name.task, name.attempt), (first, 1));
    // A node that lies about what its job is for.
    let run = name.run;
    assert!(claimed(&queue, JobName { task: second, ..name }, None).is_none());
    assert!(claimed(&queue, JobName { attempt: 2, ..name }, None).is_none());
    assert!(claimed(&queue, JobName { run: RunId::generate().unwrap(), ..name }, None).is_none());
    assert!(claimed(&queue, JobName { task: first, attempt: 1, run }, None).is_some());
    // One that Slurm started twice.
    assert!(claimed(&queue, name, None).is_none());
    assert_eq!(queue.attempts(first).unwrap().len(), 1);
    assert_eq!(queue.task(second).unwrap().status, Status::Queued);
}

#[test]
fn scheduler_that_does_not_answer_concludes_nothing() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    let said = with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        // As with a wrong key of munge.
        let error = SchedulerError::Unavailable("Munge decode failed".to_owned());
        *script.error.borrow_mut() = Some(error);
        for at in 1..100 {
            dispatcher.step(seconds(at)).unwrap();
        }
    });
    assert!(said.last().unwrap().contains("Munge decode failed"), "{said:?}");
    assert_eq!(queue.task(task).unwrap().attempts, 0);
}

#[test]
fn job_whose_submission_was_not_answered_is_found_before_it_is_submitted_again() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    let error = SchedulerError::Unavailable("timed out".to_owned());
    *script.error.borrow_mut() = Some(error);
    let said = with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        *script.error.borrow_mut() = None;
        let run = run_of_placement(&queue);
        script.jobs.borrow_mut().push((JobName { task, attempt: 1, run }, JobState::Waiting));
        for at in 1..20 {
            dispatcher.step(seconds(at)).unwrap();
        }
    });
    assert!(said.iter().any(|event| event.starts_with("Found")), "{said:?}");
    assert_eq!(script.jobs.borrow().len(), 1);
}

#[test]
fn job_that_is_found_and_is_not_what_was_submitted_is_cancelled_and_gets_no_attempt() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    *script.error.borrow_mut() = Some(SchedulerError::Unavailable("timed out".to_owned()));
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        *script.error.borrow_mut() = None;
        let planted = JobName { task, attempt: 1, run: run_of_placement(&queue) };
        script.jobs.borrow_mut().push((planted, JobState::Running));
        script.is_changed.set(true);
        for at in 1..20 {
            dispatcher.step(seconds(at)).unwrap();
        }
        assert!(claimed(&queue, planted, None).is_none());
    });
    assert!(matches!(script.jobs.borrow()[0].1, JobState::Ended(_)), "it is cancelled");
    let failure = queue.attempts(task).unwrap()[0].failure.clone().unwrap();
    assert!(failure.code == JOB_LOST && failure.message.contains("another"), "{failure:?}");
    assert_eq!(script.jobs.borrow()[1].0.attempt, 2, "and another attempt is placed");
}

#[test]
fn job_that_is_gone_costs_an_attempt_by_name_and_comes_back_to_nothing() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        script.set(0, JobState::Unknown);
        for at in 1..9 {
            dispatcher.step(seconds(at)).unwrap();
        }
        assert_eq!(queue.task(task).unwrap().attempts, 0);
        dispatcher.step(seconds(20)).unwrap();
        dispatcher.step(seconds(21)).unwrap();
    });
    let failure = queue.attempts(task).unwrap()[0].failure.clone().unwrap();
    assert_eq!(failure.code, JOB_LOST);
    let (old, new) = (script.jobs.borrow()[0].0, script.jobs.borrow()[1].0);
    assert_eq!(new.attempt, 2);
    assert!(claimed(&queue, old, None).is_none() && claimed(&queue, new, None).is_some());
}

#[test]
fn lease_of_a_claimed_attempt_decides_whatever_the_scheduler_says() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        let name = script.jobs.borrow()[0].0;
        let holder = claimed(&queue, name, None).unwrap();
        queue.heartbeat(&holder, None).unwrap();
        for (at, state) in [
            (1, JobState::Ended("NODE_FAIL".to_owned())),
            (100, JobState::Unknown),
            (200, JobState::Unknown),
        ] {
            script.set(0, state);
            dispatcher.step(seconds(at)).unwrap();
        }
        assert_eq!(queue.attempts(task).unwrap()[0].status, AttemptStatus::Running);
    });
    assert_eq!(script.jobs.borrow().len(), 1);
}

#[test]
fn result_of_a_job_that_was_killed_after_its_acceptance_is_published() {
    let (queue, script, published) = (queue(), Script::new(), RefCell::new(Vec::new()));
    let publish = |_: &JobName, spec: &TaskSpec, completion: &Completion| {
        published.borrow_mut().push((spec.title.clone(), completion.output.clone()));
        Err("it is checked out".into())
    };
    let said = RefCell::new(Vec::new());
    let observer = |event: &DispatchEvent<'_>| {
        if let DispatchEvent::Unpublished(_, why) = event {
            said.borrow_mut().push((*why).to_owned());
        }
    };
    let jobs = Jobs(None);
    let mut dispatcher =
        Dispatcher::new(&queue, &script, &jobs, 10, &observer).publishing(&publish);
    let failed = add(&queue);
    dispatcher.step(seconds(0)).unwrap();
    let holder = claimed(&queue, script.jobs.borrow()[0].0, None).unwrap();
    queue.heartbeat(&holder, None).unwrap();
    queue.fail(&holder, &Failure::new("bad", "it is bad")).unwrap();
    add(&queue);
    dispatcher.step(seconds(1)).unwrap();
    let jobs_of_others =
        script.jobs.borrow().iter().filter(|(name, _)| name.task != failed).count();
    assert_eq!(jobs_of_others, 1);
    let name = script.jobs.borrow().iter().find(|(name, _)| name.task != failed).unwrap().0;
    let holder = claimed(&queue, name, None).unwrap();
    queue.heartbeat(&holder, None).unwrap();
    let completion = Completion { output: r#"{"branch":"b"}"#.to_owned(), usage: Usage::default() };
    queue.complete(&holder, &completion).unwrap();
    let count = script.jobs.borrow().len();
    for job in 0..count {
        script.set(job, JobState::Ended("NODE_FAIL".to_owned()));
    }
    dispatcher.step(seconds(2)).unwrap();
    dispatcher.step(seconds(3)).unwrap();
    assert_eq!(*published.borrow(), [("t".to_owned(), completion.output)]);
    assert_eq!(*said.borrow(), ["it is checked out"]);
}

#[test]
fn job_of_a_cancelled_task_is_cancelled() {
    let (queue, script) = (queue(), Script::new());
    let task = add(&queue);
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        queue.cancel(task, "not wanted").unwrap();
        dispatcher.step(seconds(1)).unwrap();
        assert!(matches!(script.jobs.borrow()[0].1, JobState::Ended(_)));
        assert_eq!(dispatcher.step(seconds(2)).unwrap().placed, 0);
    });
}

#[test]
fn first_refusal_fails_no_task_and_a_later_one_fails_its_own() {
    let (queue, script) = (queue(), Script::new());
    let first = add(&queue);
    let refused = || Some(SchedulerError::Refused("invalid partition".to_owned()));
    with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        *script.error.borrow_mut() = refused();
        let error = dispatcher.step(seconds(0)).unwrap_err();
        assert!(matches!(error, DispatchError::Refused(_)), "{error}");
        assert_eq!(queue.task(first).unwrap().status, Status::Queued);
        *script.error.borrow_mut() = None;
        dispatcher.step(seconds(1)).unwrap();
        assert!(claimed(&queue, script.jobs.borrow()[0].0, None).is_some());
    });
    let (script, second) = (Refusing { script, refuses: RefCell::default() }, add(&queue));
    let observer = |_: &DispatchEvent<'_>| {};
    let mut dispatcher = Dispatcher::new(&queue, &script, &Jobs(None), 10, &observer);
    dispatcher.step(seconds(2)).unwrap();
    // Tasks of one moment have no order that this test could rely on.
    let third = add(&queue);
    *script.refuses.borrow_mut() = Some(third);
    dispatcher.step(seconds(3)).unwrap();
    assert_eq!(queue.task(second).unwrap().status, Status::Queued);
    let failed = queue.task(third).unwrap();
    assert_eq!(
        (failed.status, failed.failure.unwrap().code.as_str()),
        (Status::Failed, JOB_REFUSED)
    );
}

/// A scheduler that does not take the jobs of one task.
struct Refusing {
    script: Script,
    refuses: RefCell<Option<TaskId>>,
}

impl Scheduler for Refusing {
    fn name(&self) -> &'static str {
        self.script.name()
    }

    fn submit(&self, request: &JobRequest) -> Result<JobId, SchedulerError> {
        if *self.refuses.borrow() == Some(request.name.task) {
            return Err(SchedulerError::Refused("too much memory".to_owned()));
        }
        self.script.submit(request)
    }

    fn find(&self, name: &JobName) -> Result<Vec<JobId>, SchedulerError> {
        self.script.find(name)
    }

    fn observe(&self, jobs: &[Job]) -> Result<Vec<JobState>, SchedulerError> {
        self.script.observe(jobs)
    }

    fn cancel(&self, job: &Job) -> Result<(), SchedulerError> {
        self.script.cancel(job)
    }

    fn output(&self, name: &JobName) -> String {
        self.script.output(name)
    }

    fn no_output(&self) -> &'static str {
        ""
    }

    fn clean_up(&self, name: &JobName) {
        self.script.clean_up(name);
    }
}

#[test]
fn secrets_are_sealed_for_a_job_that_runs_and_taken_once() {
    let (queue, script) = (queue(), Script::new());
    add(&queue);
    with_dispatcher(&queue, &script, &Jobs(Some("c4n4ry")), |dispatcher| {
        dispatcher.step(seconds(0)).unwrap();
        let name = script.jobs.borrow()[0].0;
        let key = TicketKey::generate().unwrap();
        let holder = claimed(&queue, name, Some(key.public())).unwrap();
        queue.heartbeat(&holder, None).unwrap();
        let tickets = || {
            let notes: Result<_, pinfold_tasks::StoreError> =
                queue.store().read(|transaction| transaction.notes("ticket", "", "", 9));
            notes.unwrap()
        };
        // The scheduler does not say that it runs.
        dispatcher.step(seconds(1)).unwrap();
        assert!(tickets().is_empty());
        script.set(0, JobState::Running);
        dispatcher.step(seconds(2)).unwrap();
        let sealed = tickets();
        assert!(sealed.len() == 1 && !sealed[0].content.contains("c4n4ry"), "{sealed:?}");
        let stop = Stop::new().unwrap();
        let opened = key.wait(&name, &queue, &stop, seconds(1)).unwrap();
        assert_eq!((opened[0].name.as_str(), opened[0].value.as_str()), ("KEY", "c4n4ry"));
        dispatcher.step(seconds(3)).unwrap();
        assert!(tickets().is_empty(), "a key opens one ticket");
    });
}

/// Others may write to the store.
#[test]
fn placement_that_cannot_be_read_holds_up_no_other() {
    let (queue, script) = (queue(), Script::new());
    for (key, content) in [("x", "{}"), ("../../etc-1", "{}"), ("\u{1b}[31m-1", "")] {
        let note = Note { key: key.to_owned(), content: content.to_owned() };
        let written: Result<(), pinfold_tasks::StoreError> =
            queue.store().write(|transaction| transaction.set_note("placement", &note, None));
        written.unwrap();
    }
    add(&queue);
    let said = with_dispatcher(&queue, &script, &Jobs(None), |dispatcher| {
        assert_eq!(dispatcher.step(seconds(0)).unwrap().live, 1);
    });
    assert_eq!(said.iter().filter(|event| event.contains("cannot be read")).count(), 3, "{said:?}");
    assert!(said.iter().all(|event| !event.contains('\u{1b}')), "{said:?}");
}
