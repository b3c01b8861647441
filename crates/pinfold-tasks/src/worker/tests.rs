use pinfold_host::Refusal;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::{Until, Worker, WorkerEvent, WorkerSettings};
use crate::engine::{Ending, Engine, Stop};
use crate::lease::Lease;
use crate::testing::seconds;
use crate::{
    Answer, AttemptQueue, Claimed, Completion, Denied, Draft, Failure, Holder, Inquiry, NewMessage,
    Queue, Reply, Request, Source, SqliteStore, Status, SystemClock, TaskId, TaskSpec, Usage,
};
use parking_lot::Mutex;

/// Does what a task's brief says.
#[derive(Default)]
struct Scripted {
    at_once: AtomicUsize,
    most: AtomicUsize,
    accepted: AtomicUsize,
    order: Mutex<Vec<String>>,
}

impl Engine for Scripted {
    fn carry_out(&self, claimed: &Claimed, stop: &Stop, queue: &dyn AttemptQueue) -> Ending {
        let running = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.order.lock().push(claimed.spec.title.clone());
        queue.progress("works");
        let ending = match claimed.spec.brief.as_str() {
            "fail" => Ending::Failed(Failure {
                retryable: Some(false),
                ..Failure::new("bad", "it is bad")
            }),
            "hang" if stop.wait(seconds(60)) => Ending::Stopped,
            _ => {
                std::thread::sleep(Duration::from_millis(50));
                Ending::Completed(Completion { output: "{}".to_owned(), usage: Usage::default() })
            }
        };
        self.at_once.fetch_sub(1, Ordering::SeqCst);
        ending
    }

    fn accepted(&self, _: &Claimed, _: &Completion) -> Result<(), Refusal> {
        self.accepted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

struct Scene {
    queue: Queue<SqliteStore>,
    engine: Scripted,
    stop: Stop,
    seen: Mutex<Vec<String>>,
}

impl Scene {
    fn new() -> Self {
        let store = SqliteStore::in_memory(Box::new(SystemClock)).unwrap();
        let (engine, stop) = (Scripted::default(), Stop::new().unwrap());
        Self { queue: Queue::new(store), engine, stop, seen: Mutex::default() }
    }

    fn add(&self, title: &str, brief: &str, depends: &[TaskId]) -> TaskId {
        let id = TaskId::generate().unwrap();
        let spec = TaskSpec { depends: depends.to_vec(), ..TaskSpec::new(title, brief) };
        self.queue.add(&Draft { id, spec, expires_after: None }).unwrap();
        id
    }

    fn work(&self, until: Until, jobs: usize) -> usize {
        let observer = |event: &WorkerEvent<'_>| {
            if let WorkerEvent::Lost(_, why) = event {
                self.seen.lock().push((*why).to_owned());
            }
        };
        let idle = (Duration::from_millis(20), Duration::from_millis(100));
        let heartbeat = Duration::from_millis(200);
        let settings = WorkerSettings { idle, heartbeat, ..WorkerSettings::new("test") };
        let (queue, engine, stop) = (&self.queue, &self.engine, &self.stop);
        let worker = Worker { source: queue, engine, settings, until, stop, observer: &observer };
        worker.work(jobs).completed.into_inner()
    }

    fn status(&self, id: TaskId) -> Status {
        self.queue.task(id).unwrap().status
    }
}

#[test]
fn queue_is_drained_in_the_order_of_dependencies() {
    let scene = Scene::new();
    let first = scene.add("first", "", &[]);
    let second = scene.add("second", "", &[first]);
    scene.add("third", "", &[first, second]);
    assert_eq!(scene.work(Until::Drained, 2), 3);
    assert_eq!(*scene.engine.order.lock(), ["first", "second", "third"]);
}

#[test]
fn once_is_one_task() {
    let scene = Scene::new();
    // Added in one millisecond, either may be first.
    let tasks = [scene.add("first", "", &[]), scene.add("second", "", &[])];
    assert_eq!(scene.work(Until::Once, 1), 1);
    assert_eq!(tasks.iter().filter(|id| scene.status(**id) == Status::Queued).count(), 1);
    assert_eq!((scene.work(Until::Once, 1), scene.work(Until::Once, 1)), (1, 0));
}

#[test]
fn jobs_run_at_once_and_no_more_than_allowed() {
    let scene = Scene::new();
    for task in 0..12 {
        scene.add(&task.to_string(), "", &[]);
    }
    assert_eq!(scene.work(Until::Drained, 3), 12);
    let most = scene.engine.most.load(Ordering::SeqCst);
    assert!((2..=3).contains(&most), "{most}");
}

#[test]
fn task_of_a_worker_that_ends_is_queued_again() {
    let scene = Scene::new();
    let id = scene.add("first", "hang", &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            scene.stop.set();
        });
        assert_eq!(scene.work(Until::Stopped, 1), 0);
    });
    assert_eq!(scene.status(id), Status::Queued);
}

#[test]
fn cancelled_task_is_ended() {
    let scene = Scene::new();
    let id = scene.add("first", "hang", &[]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(300));
            scene.queue.cancel(id, "not wanted").unwrap();
        });
        assert_eq!(scene.work(Until::Once, 1), 0);
    });
    assert_eq!(scene.status(id), Status::Cancelled);
    assert_eq!(*scene.seen.lock(), ["the task was cancelled: not wanted"]);
}

#[test]
fn failure_is_reported_and_its_progress_kept() {
    let scene = Scene::new();
    let id = scene.add("first", "fail", &[]);
    assert_eq!(scene.work(Until::Drained, 1), 0);
    assert_eq!(scene.queue.task(id).unwrap().failure.unwrap().code, "bad");
    let messages = scene.queue.messages(id, 1, 0).unwrap();
    assert_eq!(messages[0].payload, r#"{"text":"works"}"#);
}

/// A queue whose first answer to a result comes after the lease is over.
struct Late<'a> {
    queue: &'a Queue<SqliteStore>,
    results: AtomicUsize,
}

impl Source for Late<'_> {
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied> {
        let answer = self.queue.ask(request, ttl);
        if let Request::Complete(..) = request
            && self.results.fetch_add(1, Ordering::SeqCst) == 0
        {
            std::thread::sleep(ttl * 2);
        }
        answer
    }

    fn report(&self, holder: &Holder, messages: &[NewMessage]) {
        self.queue.report(holder, messages);
    }

    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.queue.inquire(holder, inquiry, content)
    }
}

#[test]
fn result_that_was_accepted_counts_although_its_answer_came_too_late() {
    let scene = Scene::new();
    let id = scene.add("first", "", &[]);
    let late = Late { queue: &scene.queue, results: AtomicUsize::new(0) };
    let lost =
        |event: &WorkerEvent<'_>| assert!(!matches!(event, WorkerEvent::Lost(..)), "{event:?}");
    let settings = WorkerSettings { ttl: Lease::SHORTEST, ..WorkerSettings::new("test") };
    let (engine, stop) = (&scene.engine, &scene.stop);
    let worker =
        Worker { source: &late, engine, settings, until: Until::Once, stop, observer: &lost };
    assert_eq!(worker.work(1).completed.into_inner(), 1);
    assert_eq!((scene.status(id), engine.accepted.load(Ordering::SeqCst)), (Status::Completed, 1));
}

/// A queue that cannot be reached when a worker wants to report.
struct Deaf<'a> {
    queue: &'a Queue<SqliteStore>,
    stop: &'a Stop,
}

impl Source for Deaf<'_> {
    fn ask(&self, request: &Request, ttl: Duration) -> Result<Answer, Denied> {
        if matches!(request, Request::Claim(_) | Request::Heartbeat(_)) {
            return self.queue.ask(request, ttl);
        }
        self.stop.set();
        let reason = "no answer".to_owned();
        Err(Denied { answer: Answer::Transient, reason, is_trouble: true })
    }

    fn report(&self, holder: &Holder, messages: &[NewMessage]) {
        self.queue.report(holder, messages);
    }

    fn inquire(&self, holder: &Holder, inquiry: &Inquiry, content: &[u8]) -> Result<Reply, String> {
        self.queue.inquire(holder, inquiry, content)
    }
}

#[test]
fn worker_that_ends_before_its_result_is_answered_says_so() {
    let scene = Scene::new();
    scene.add("first", "", &[]);
    let deaf = Deaf { queue: &scene.queue, stop: &scene.stop };
    let observer = |event: &WorkerEvent<'_>| {
        if let WorkerEvent::Lost(_, why) = event {
            scene.seen.lock().push((*why).to_owned());
        }
    };
    let farewell = Duration::from_millis(300);
    let settings = WorkerSettings { farewell, ..WorkerSettings::new("test") };
    let (source, engine, stop, until) = (&deaf, &scene.engine, &scene.stop, Until::Once);
    let worker = Worker { source, engine, settings, until, stop, observer: &observer };
    let tally = worker.work(1);
    assert_eq!((tally.completed.into_inner(), tally.others.into_inner()), (0, 1));
    assert_eq!(*scene.seen.lock(), ["the worker ended before the queue answered its result"]);
}
