//! A process that works on a store is killed at any moment: no result that was accepted is lost, and nothing is half done.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use pinfold_tasks::{
    AttemptStatus, Claim, Completion, Draft, Lease, Queue, Settled, SqliteStore, Status,
    SystemClock, TaskId, TaskSpec, Token, Usage,
};
use pinfold_tasks_postgres::AnyStore;

use crate::server::{Server, open};

/// The child's store: a URL, or a file.
const STORE: &str = "PINFOLD_TEST_STORE";
const TASKS: usize = 60;

fn queue(place: &str) -> Queue<AnyStore> {
    Queue::new(if place.contains("://") {
        AnyStore::Shared(Box::new(open(place).unwrap()), &[])
    } else {
        let store = SqliteStore::open_file(Path::new(place), Box::new(SystemClock));
        AnyStore::Local(store.unwrap())
    })
}

fn draft() -> Draft {
    let spec = TaskSpec::new("task", "work");
    Draft { id: TaskId::generate().unwrap(), spec, expires_after: None }
}

/// The process that is killed: it completes tasks, and prints each one whose result was accepted.
#[test]
#[ignore = "a part of the other test"]
fn worker() {
    let Ok(place) = std::env::var(STORE) else { return };
    let queue = queue(&place);
    for number in 0_u32.. {
        let token = Token::generate().unwrap();
        let claim = Claim { token, worker: "worker".to_owned(), ttl: Lease::TTL };
        let Some(claimed) = queue.claim(&claim).unwrap() else { return };
        queue.heartbeat(&claimed.holder, None).unwrap();
        let output = number.to_string();
        let completion = Completion { output, usage: Usage::default() };
        assert_eq!(queue.complete(&claimed.holder, &completion).unwrap(), Settled::Now);
        println!("accepted {} {number}", claimed.holder.task);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test starts itself, to kill it")]
fn start(place: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--ignored", "--exact", "killed::worker", "--nocapture", "--test-threads", "1"]);
    command.env(STORE, place).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn worker_killed_at_any_moment_loses_no_result_and_leaves_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    kill_workers(&directory.path().join("queue.db").display().to_string());
}

#[test]
fn worker_of_a_team_killed_at_any_moment_loses_no_result_and_blocks_nobody() {
    let Some(server) = Server::start("worker_of_a_team_killed_at_any_moment") else { return };
    kill_workers(&server.url(&server.database()));
}

fn kill_workers(place: &str) {
    let ids: Vec<TaskId> = (0..TASKS).map(|_| queue(place).add(&draft()).unwrap().id).collect();
    let mut accepted = HashMap::new();
    let mut random = fastrand::Rng::with_seed(23);
    for _ in 0..10 {
        let mut child = start(place);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut wait = random.usize(1..6);
        let mut lines = lines.map_while(Result::ok);
        for line in &mut lines {
            note(&line, &mut accepted);
            wait -= usize::from(line.contains("accepted"));
            if wait == 0 {
                break;
            }
        }
        std::thread::sleep(std::time::Duration::from_micros(random.u64(0..3_000)));
        child.kill().unwrap();
        // What it had printed before it was killed counts.
        lines.for_each(|line| note(&line, &mut accepted));
        child.wait().unwrap();
    }
    let queue = queue(place);
    assert!(accepted.len() >= 10, "the worker was never killed at work");
    let (mut completed, mut held) = (0, 0);
    for id in &ids {
        let (task, attempts) = (queue.task(*id).unwrap(), queue.attempts(*id).unwrap());
        assert_eq!(attempts.len(), task.attempts as usize);
        let known = accepted.get(&id.to_string());
        assert!(known.is_none() || task.status == Status::Completed, "a result was lost: {task:?}");
        match task.status {
            Status::Completed => {
                let attempt = attempts.last().unwrap();
                assert_eq!(attempt.status, AttemptStatus::Completed);
                let output = &attempt.completion.as_ref().unwrap().output;
                assert!(known.is_none_or(|known| known == output));
                completed += 1;
            }
            Status::Dispatched | Status::Running => held += 1,
            other => assert_eq!(other, Status::Queued),
        }
    }
    // One that was accepted may not have been printed; each killed worker holds one task at most.
    assert!(completed >= accepted.len() && held <= 10, "{completed} {held}");
}

fn note(line: &str, accepted: &mut HashMap<String, String>) {
    // The harness may print on the same line.
    let Some((_, line)) = line.split_once("accepted ") else { return };
    if let Some((id, output)) = line.split_once(' ') {
        accepted.insert(id.to_owned(), output.to_owned());
    }
}
