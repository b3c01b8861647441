//! A database that several processes use, its faults, and what is in it.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pinfold_tasks::{
    AttemptStatus, Claim, Completion, Draft, Lease, Queue, QueueError, SqlTransaction, Status,
    Store, StoreError, TaskId, TaskSpec, Token, Transaction as _, Usage,
};
use rustix::process::Signal;

use crate::server::{Server, open};
use crate::testing::{claim, draft, id};

/// The child's store.
const STORE: &str = "PINFOLD_TEST_SHARED_STORE";

fn completion(output: &str) -> Completion {
    Completion { output: output.to_owned(), usage: Usage::default() }
}

/// Does what a worker does: it repeats what may succeed a moment later.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, QueueError>) -> Result<T, QueueError> {
    let begun = Instant::now();
    loop {
        match ask() {
            Err(error) if error.is_transient() && begun.elapsed() < Duration::from_secs(60) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            done => return done,
        }
    }
}

/// A worker that goes on while its server is away. It prints the results that were accepted.
#[test]
#[ignore = "a part of another test"]
fn worker() {
    let Ok(url) = std::env::var(STORE) else { return };
    let queue = Queue::new(patiently(|| open(&url).map_err(QueueError::Store)).unwrap());
    loop {
        let token = Token::generate().unwrap();
        let claim = Claim { token, worker: "worker".to_owned(), ttl: Lease::TTL };
        let Some(claimed) = patiently(|| queue.claim(&claim)).unwrap() else { return };
        let holder = claimed.holder;
        patiently(|| queue.heartbeat(&holder, None)).unwrap();
        let output = format!("\"{}-{}\"", std::process::id(), holder.task);
        patiently(|| queue.complete(&holder, &completion(&output))).unwrap();
        println!("accepted {} {output}", holder.task);
    }
}

#[expect(clippy::disallowed_methods, reason = "the test starts itself, to kill it")]
fn start(url: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "shared::worker", "--nocapture", "--test-threads", "1"]);
    command.env(STORE, url).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn two_workers_whose_server_crashes_and_one_of_which_is_killed_lose_nothing() {
    const TASKS: usize = 150;
    let Some(mut server) = Server::start("two_workers_whose_server_crashes") else { return };
    let database = server.database();
    let url = server.url(&database);
    let queue = Queue::new(server.store(&database));
    let add = |_| {
        let spec = TaskSpec::new("task", "work");
        let draft = Draft { id: TaskId::generate().unwrap(), spec, expires_after: None };
        queue.add(&draft).unwrap().id
    };
    let ids: Vec<TaskId> = (0..TASKS).map(add).collect();
    let mut accepted: HashMap<String, String> = HashMap::new();
    let mut note = |line: &str| {
        let Some((_, line)) = line.split_once("accepted ") else { return false };
        let Some((id, output)) = line.split_once(' ') else { return false };
        let twice = accepted.insert(id.to_owned(), output.to_owned());
        assert!(twice.is_none(), "{id} was accepted twice");
        true
    };
    let mut workers = [start(&url), start(&url)];
    let mut outputs = workers
        .each_mut()
        .map(|worker| BufReader::new(worker.stdout.take().unwrap()).lines().map_while(Result::ok));
    // At some moment of their work, the first as in a crash.
    for signal in [Signal::QUIT, Signal::QUIT, Signal::INT] {
        let mut seen = 0;
        while seen < 8 {
            seen += usize::from(note(&outputs[0].next().expect("the worker goes on")));
        }
        server.0.end(signal);
        server.0.restart();
    }
    workers[0].kill().unwrap();
    for output in &mut outputs {
        output.for_each(|line| {
            note(&line);
        });
    }
    for worker in &mut workers {
        worker.wait().unwrap();
    }
    let mut held = 0;
    for id in &ids {
        let (task, attempts) = (queue.task(*id).unwrap(), queue.attempts(*id).unwrap());
        assert_eq!(attempts.len(), 1, "{task:?}");
        match task.status {
            Status::Completed => {
                assert_eq!(attempts[0].status, AttemptStatus::Completed);
                let output = &attempts[0].completion.as_ref().unwrap().output;
                let known = accepted.get(&id.to_string());
                assert!(known.is_none_or(|known| known == output), "another result is kept");
            }
            _ => {
                assert!(!accepted.contains_key(&id.to_string()), "a result was lost: {task:?}");
                held += 1;
            }
        }
    }
    // What the killed one had.
    assert!(held <= 1, "{held} tasks are held by nobody");
}

#[test]
fn server_that_was_away_is_used_again() {
    let Some(mut server) = Server::start("server_that_was_away_is_used_again") else { return };
    let queue = Queue::new(server.store(&server.database()));
    queue.add(&draft(1)).unwrap();
    // A connection that ended while nothing was asked costs nothing.
    server.0.end(Signal::INT);
    server.0.restart();
    queue.add(&draft(2)).unwrap();
    server.0.end(Signal::QUIT);
    let error = queue.add(&draft(3)).unwrap_err();
    assert!(error.is_transient() && error.hint().is_some(), "{error}");
    assert!(error.to_string().contains("cannot be used"), "{error}");
    server.0.restart();
    queue.add(&draft(3)).unwrap();
    assert_eq!(queue.claim(&claim(1)).unwrap().unwrap().holder.task, id(1));
}

#[test]
fn process_that_stops_in_a_transaction_loses_it_and_blocks_others_for_seconds_only() {
    let Some(server) = Server::start("process_that_stops_in_a_transaction") else { return };
    let database = server.database();
    let (stopped, other) = (server.store(&database), Queue::new(server.store(&database)));
    other.add(&draft(1)).unwrap();
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        let stopped = scope.spawn(|| {
            stopped.write(|transaction| {
                transaction.remove(id(1))?;
                barrier.wait();
                std::thread::sleep(Duration::from_secs(8));
                Ok::<_, StoreError>(())
            })
        });
        barrier.wait();
        let begun = Instant::now();
        other.add(&draft(2)).unwrap();
        let waited = begun.elapsed();
        assert!(waited > Duration::from_secs(2), "the others were not excluded: {waited:?}");
        assert!(waited < Duration::from_secs(9), "waited {waited:?}");
        let error = stopped.join().unwrap().unwrap_err();
        assert!(error.is_transient(), "{error}");
    });
    assert_eq!(other.task(id(1)).unwrap().status, Status::Queued);
}

#[test]
fn time_is_the_servers_and_is_read_after_others_are_excluded() {
    let Some(server) = Server::start("time_is_the_servers") else { return };
    let database = server.database();
    let (first, second) = (server.store(&database), server.store(&database));
    let barrier = Barrier::new(2);
    let (early, late) = std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            first.write(|transaction| {
                barrier.wait();
                std::thread::sleep(Duration::from_secs(1));
                Ok::<_, StoreError>(transaction.now())
            })
        });
        barrier.wait();
        let late = second.write(|transaction| Ok::<_, StoreError>(transaction.now())).unwrap();
        (first.join().unwrap().unwrap(), late)
    });
    assert!(late.since(early) >= Duration::from_millis(900), "{early:?} {late:?}");
}

#[test]
fn work_on_one_task_excludes_work_on_the_same_and_on_all_and_nothing_else() {
    let Some(server) = Server::start("work_on_one_task_excludes") else { return };
    let database = server.database();
    let stores = [(); 4].map(|()| server.store(&database));
    let queue = Queue::new(server.store(&database));
    let [ours, theirs] = [1, 2].map(|number| queue.add(&draft(number)).unwrap().id);
    let [holder, other, same, all] = &stores;
    let (begun, other_is_done) = (Barrier::new(2), Barrier::new(2));
    let now = |transaction: &mut SqlTransaction<'_>| Ok::<_, StoreError>(transaction.now());
    std::thread::scope(|scope| {
        let held = scope.spawn(|| {
            holder.write_task(ours, |transaction| {
                begun.wait();
                // The server would end it after five seconds.
                other_is_done.wait();
                std::thread::sleep(Duration::from_secs(1));
                Ok::<_, StoreError>(transaction.now())
            })
        });
        begun.wait();
        other.write_task(theirs, now).unwrap();
        let same = scope.spawn(|| same.write_task(ours, now));
        let all = scope.spawn(|| all.write(now));
        other_is_done.wait();
        let held = held.join().unwrap().unwrap();
        for late in [same.join().unwrap().unwrap(), all.join().unwrap().unwrap()] {
            assert!(late.since(held) >= Duration::from_millis(900), "{held:?} {late:?}");
        }
    });
}

#[test]
fn claim_and_result_of_a_task_that_touches_nothing_wait_for_no_work_on_another() {
    let Some(server) = Server::start("claim_and_result_of_a_task") else { return };
    let database = server.database();
    let holder = server.store(&database);
    let [queue, other] = [(); 2].map(|()| Queue::new(server.store(&database)));
    let [held, alone, needed] = [1, 2, 3].map(|number| queue.add(&draft(number)).unwrap().id);
    let (mut waiting, mut touching) = (draft(4), draft(5));
    waiting.spec.depends = vec![needed];
    touching.spec.touches = vec!["src/**".to_owned()];
    queue.add(&waiting).unwrap();
    queue.add(&touching).unwrap();
    let (begun, apart) = (Barrier::new(2), Barrier::new(2));
    let is_held = AtomicBool::new(true);
    let start = |task, number| {
        let claimed = queue.claim_attempt(task, 1, &claim(number), |_| Ok(true)).unwrap().unwrap();
        queue.heartbeat(&claimed.holder, None).unwrap();
        claimed.holder
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let held = holder.write_task(held, |_| {
                begun.wait();
                // The server would end it after five seconds.
                apart.wait();
                std::thread::sleep(Duration::from_secs(1));
                is_held.store(false, Ordering::SeqCst);
                Ok::<_, StoreError>(())
            });
            held.unwrap();
        });
        begun.wait();
        let attempt = start(alone, 1);
        queue.complete(&attempt, &completion("1")).unwrap();
        let attempt = start(needed, 2);
        apart.wait();
        // One may be in the way of others, and the other one queues a task.
        scope.spawn(|| {
            let claimed = other.claim_attempt(touching.id, 1, &claim(3), |_| Ok(true)).unwrap();
            assert!(claimed.is_some() && !is_held.load(Ordering::SeqCst));
        });
        queue.complete(&attempt, &completion("1")).unwrap();
        assert!(!is_held.load(Ordering::SeqCst));
    });
    assert_eq!(queue.task(waiting.id).unwrap().status, Status::Queued);
}

#[test]
fn database_of_another_program_a_newer_pinfold_or_another_user_is_refused() {
    let Some(server) = Server::start("database_of_another_program") else { return };
    let refusal = |database: &str| open(&server.url(database)).unwrap_err();
    let database = server.database();
    server.0.sql(&database, "CREATE SCHEMA pinfold; CREATE TABLE pinfold.bookmark (url TEXT)");
    let error = refusal(&database);
    assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
    assert_eq!(server.0.sql(&database, "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = 'pinfold'"), "1");

    let database = server.database();
    let queue = Queue::new(server.store(&database));
    queue.add(&draft(1)).unwrap();
    server.0.sql(&database, "UPDATE pinfold.store SET format = 99");
    let error = refusal(&database);
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
    // One that was open writes no more, either.
    let error = queue.add(&draft(2)).unwrap_err();
    assert!(matches!(error, QueueError::Store(StoreError::Newer { .. })), "{error}");

    let database = server.database();
    server.0.sql(&database, "CREATE ROLE worker LOGIN; CREATE ROLE mallory");
    server.0.sql(&database, &format!("GRANT CREATE ON DATABASE {database} TO worker"));
    server.0.sql(
        &database,
        "CREATE SCHEMA pinfold AUTHORIZATION mallory; GRANT ALL ON SCHEMA pinfold TO worker",
    );
    let as_worker = |database: &str| open(&server.url(database).replace("pinfold@", "worker@"));
    let error = as_worker(&database).unwrap_err();
    assert!(error.to_string().contains("another user"), "{error}");
    // What she made would run with all rights of a superuser.
    let error = refusal(&database);
    assert!(error.to_string().contains("another user"), "{error}");
    server.0.sql(&database, "DROP SCHEMA pinfold");
    as_worker(&database).unwrap();

    let database = server.database();
    server.0.sql(&database, &format!("REVOKE CREATE ON DATABASE {database} FROM worker"));
    let error = as_worker(&database).unwrap_err();
    assert!(matches!(error, StoreError::Denied(_)) && !error.is_transient(), "{error}");
    let error = refusal("nowhere");
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
}

#[test]
fn migration_that_fails_changes_nothing_and_processes_that_migrate_at_once_agree() {
    let Some(server) = Server::start("migration_that_fails") else { return };
    let database = server.database();
    server.0.sql(
        &database,
        "CREATE FUNCTION no() RETURNS event_trigger LANGUAGE plpgsql AS \
         $$ BEGIN RAISE EXCEPTION 'no index'; END $$; \
         CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION no()",
    );
    let error = open(&server.url(&database)).unwrap_err();
    assert!(error.to_string().contains("no index"), "{error}");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'pinfold'";
    assert_eq!(server.0.sql(&database, schemas), "0");
    server.0.sql(&database, "DROP EVENT TRIGGER no");
    std::thread::scope(|scope| {
        for number in 0..6 {
            let (server, database) = (&server, &database);
            scope.spawn(move || Queue::new(server.store(database)).add(&draft(number)).unwrap());
        }
    });
    assert_eq!(server.0.sql(&database, "SELECT count(*) FROM pinfold.task"), "6");
}

#[test]
fn commit_is_on_the_disk_whatever_the_servers_settings_are() {
    let Some(server) = Server::start("commit_is_on_the_disk") else { return };
    let database = server.database();
    server.0.sql(&database, &format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    server.0.sql(
        &database,
        &format!("ALTER DATABASE {database} SET default_transaction_isolation = serializable"),
    );
    let queue = Queue::new(server.store(&database));
    // Each row notes what its transaction had.
    server.0.sql(
        &database,
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         NEW.title := current_setting('synchronous_commit') || ' ' || \
           current_setting('transaction_isolation'); RETURN NEW; END $$; \
         CREATE TRIGGER note BEFORE INSERT ON pinfold.task FOR EACH ROW EXECUTE FUNCTION note()",
    );
    queue.add(&draft(1)).unwrap();
    assert_eq!(queue.task(id(1)).unwrap().title, "on read committed");
}

/// With 10 000 tasks queued, a claim reads some entries of an index: before the server has looked at the tables and after.
#[test]
fn claim_among_ten_thousand_tasks_looks_at_few() {
    const CLAIMS: u128 = 100;
    let Some(server) = Server::start("claim_among_ten_thousand_tasks") else { return };
    let database = server.database();
    let queue = Queue::new(server.store(&database));
    queue.add(&draft(0)).unwrap();
    let copy = |table: &str, key: &str| {
        let columns = format!(
            "SELECT string_agg(CASE attname WHEN '{key}' THEN 'md5(n::text)::uuid::text' ELSE attname END, ', ' ORDER BY attnum) \
             FROM pg_attribute WHERE attrelid = 'pinfold.{table}'::regclass AND attnum > 0"
        );
        let columns = server.0.sql(&database, &columns);
        let copy = format!(
            "INSERT INTO pinfold.{table} SELECT {columns} FROM pinfold.{table}, generate_series(1, 9999) AS n"
        );
        server.0.sql(&database, &copy);
    };
    copy("task", "id");
    // A UUID of version 4 has six bits that say so.
    let version = "overlay(overlay(id placing '4' from 15 for 1) placing '8' from 20 for 1)";
    server
        .0
        .sql(&database, &format!("UPDATE pinfold.task SET id = {version} WHERE id <> '{}'", id(0)));
    server.0.sql(
        &database,
        "INSERT INTO pinfold.spec SELECT id, content FROM pinfold.task, pinfold.spec WHERE id <> task",
    );
    for round in 0..2_u128 {
        let mut times = Vec::new();
        for number in 1..=CLAIMS {
            let begun = Instant::now();
            let holder = queue.claim(&claim(round << 64 | number)).unwrap().unwrap().holder;
            times.push(begun.elapsed());
            queue.heartbeat(&holder, None).unwrap();
            queue.complete(&holder, &completion("1")).unwrap();
        }
        times.sort_unstable();
        println!(
            "claim: median {:?}, slowest {:?}",
            times[times.len() / 2],
            times[times.len() - 1]
        );
        // By far less than a look at all of them takes; the machine is shared.
        assert!(times[times.len() / 2] < Duration::from_millis(40), "{:?}", times[times.len() / 2]);
        server.0.sql(&database, "ANALYZE");
    }
    let plan = server.0.sql(
        &database,
        "SET search_path = pinfold; EXPLAIN SELECT id FROM task WHERE status = 'queued' AND NOT EXISTS ( \
         SELECT 1 FROM touch AS mine JOIN touch AS other ON other.repository = mine.repository \
         JOIN task AS busy ON busy.id = other.task AND busy.status IN ('dispatched', 'running') \
         WHERE mine.task = task.id LIMIT 1 OFFSET 0) \
         ORDER BY priority DESC, queued_at, added_at, id LIMIT 1",
    );
    assert!(plan.contains("task_queued") && !plan.contains("Sort"), "{plan}");
}

/// A small disk that only this thread and what it starts can see.
struct SmallDisk(tempfile::TempDir);

impl Drop for SmallDisk {
    /// Has the directory be an empty one again, which can be removed.
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

fn small_disk(size: &str) -> SmallDisk {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    let directory = tempfile::Builder::new().prefix("pf-disk-").tempdir().unwrap();
    // SAFETY: a thread with mounts of its own shares nothing that Rust relies on.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.unwrap();
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
    let data = std::ffi::CString::new(format!("size={size},mode=0777")).unwrap();
    mount("tmpfs", directory.path(), "tmpfs", MountFlags::empty(), data.as_c_str()).unwrap();
    SmallDisk(directory)
}

#[test]
fn full_disk_of_the_server_is_named_and_loses_nothing() {
    const TEST: &str = "full_disk_of_the_server";
    if !rustix::process::geteuid().is_root() {
        return pinfold_testkit::skip(TEST, "only root can make a small disk");
    }
    let disk = small_disk("120m");
    let spare = disk.0.path().join("spare");
    std::fs::write(&spare, vec![b'x'; 24 << 20]).unwrap();
    let data = disk.0.path().join("data");
    // Its log takes no more of the disk than it needs.
    let settings = ["min_wal_size=32MB", "max_wal_size=32MB"];
    let Some(server) = pinfold_testkit::Postgres::start_with(TEST, Some(&data), &settings) else {
        return;
    };
    let mut server = Server(server);
    let database = server.database();
    let queue = Queue::new(server.store(&database));
    let mut random = fastrand::Rng::with_seed(23);
    let mut added = Vec::new();
    let error = loop {
        let mut draft = draft(added.len() as u128);
        // Nothing that could be compressed.
        draft.spec.brief =
            std::iter::repeat_with(|| random.alphanumeric()).take(256 << 10).collect();
        match queue.add(&draft) {
            Ok(task) => added.push(task.id),
            Err(error) => break error,
        }
        assert!(added.len() < 1_000, "the disk is never full");
    };
    println!("after {} tasks: {error}", added.len());
    // The server either says so, or its log does not fit any more and it ends.
    assert!(error.is_transient() && error.hint().is_some(), "{error}");
    std::fs::remove_file(spare).unwrap();
    server.0.end(Signal::QUIT);
    server.0.restart();
    for id in &added {
        assert_eq!(patiently(|| queue.task(*id)).unwrap().status, Status::Queued);
    }
    let holder = queue.claim(&claim(1)).unwrap().unwrap().holder;
    queue.heartbeat(&holder, None).unwrap();
    queue.complete(&holder, &completion("1")).unwrap();
}
