use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pinfold_sqlite::with_ending;
use tempfile::TempDir;

use super::*;
use crate::testing::{TestClock, claim, draft, id};
use crate::{Completion, Holder, Queue, QueueError, Status, Usage};
use pinfold_content::SystemClock;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open_file(path, Box::new(SystemClock))
}

fn queue(path: &Path) -> Queue<SqliteStore> {
    Queue::new(open(path).unwrap())
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("queue.db");
    (directory, path)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn files_are_the_users_alone() {
    let (_directory, path) = place();
    queue(&path).add(&draft(1)).unwrap();
    let kept = queue(&path);
    kept.add(&draft(2)).unwrap();
    for ending in ["", "-wal", "-shm"] {
        assert_eq!(mode(&with_ending(&path, ending)), 0o600, "{ending}");
    }
}

#[test]
fn store_that_others_can_write_to_is_refused() {
    let (directory, path) = place();
    drop(queue(&path));
    let is_refused = |path: &Path| {
        let error = open(path).unwrap_err();
        // A worker that tries again would try for ever.
        matches!(error, StoreError::NotOwned(_)) && !error.is_transient() && error.hint().is_some()
    };
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(is_refused(&path));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    // A log that somebody else could write is read as part of the database.
    fs::write(with_ending(&path, "-wal"), b"").unwrap();
    fs::set_permissions(with_ending(&path, "-wal"), Permissions::from_mode(0o666)).unwrap();
    assert!(is_refused(&path));
    fs::remove_file(with_ending(&path, "-wal")).unwrap();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(is_refused(&path));
    // Nor is a new one made there.
    let new = directory.path().join("new.db");
    assert!(is_refused(&new));
    assert!(!new.exists());
}

#[test]
fn link_in_place_of_the_store_is_refused() {
    let (directory, path) = place();
    let target = directory.path().join("other.db");
    drop(queue(&target));
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(open(&path).is_err());
    // A link above it is followed: a home may be one.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    open(&link.join("other.db")).unwrap();
    // Nothing is made where a link leads to nothing.
    let missing = directory.path().join("missing.db");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&missing, &path).unwrap();
    assert!(open(&path).is_err());
    assert!(!missing.exists());
}

#[test]
fn file_of_another_program_is_refused_and_stays_as_it_is() {
    let (_directory, path) = place();
    fs::write(&path, b"this is a text of more than a hundred bytes, ".repeat(4)).unwrap();
    let before = fs::read(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::Foreign { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE bookmark (url TEXT)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = open(&path).unwrap_err();
    assert!(error.hint().unwrap().contains("move"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn store_of_a_newer_program_is_refused() {
    let (_directory, path) = place();
    drop(queue(&path));
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

#[test]
fn value_that_this_program_never_wrote_is_an_error() {
    let (_directory, path) = place();
    let queue = queue(&path);
    queue.add(&draft(1)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute("UPDATE task SET status = 'done'", []).unwrap();
    let error = queue.task(id(1)).unwrap_err();
    assert!(matches!(error, QueueError::Store(StoreError::Invalid { .. })), "{error}");
    other.execute("UPDATE task SET status = 'queued', attempts = -1", []).unwrap();
    assert!(queue.claim(&claim(1)).is_err());
}

#[test]
fn store_is_kept_and_is_shared_by_connections() {
    let (_directory, path) = place();
    let (first, second) = (queue(&path), queue(&path));
    first.add(&draft(1)).unwrap();
    let claimed = second.claim(&claim(1)).unwrap().unwrap();
    assert!(first.claim(&claim(2)).unwrap().is_none());
    drop((first, second));
    let reopened = queue(&path);
    reopened.heartbeat(&claimed.holder, None).unwrap();
    assert_eq!(reopened.task(id(1)).unwrap().status, Status::Running);
}

#[test]
fn workers_that_claim_at_once_get_different_tasks() {
    const TASKS: u128 = 40;
    let (_directory, path) = place();
    let queue = queue(&path);
    for number in 0..TASKS {
        queue.add(&draft(number)).unwrap();
    }
    let barrier = Barrier::new(4);
    let work = |worker: u128| {
        let (path, barrier) = (&path, &barrier);
        move || {
            let queue = Queue::new(open(path).unwrap());
            barrier.wait();
            let mut claimed = Vec::new();
            while let Some(one) = queue.claim(&claim(worker << 64 | claimed.len() as u128)).unwrap()
            {
                claimed.push(one.holder.task);
            }
            claimed
        }
    };
    let mut claimed = std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=4).map(|worker| scope.spawn(work(worker))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
    });
    claimed.sort_unstable();
    let mut expected: Vec<_> = (0..TASKS).map(id).collect();
    expected.sort_unstable();
    assert_eq!(claimed, expected);
}

#[test]
fn full_disk_is_named_and_nothing_of_the_change_is_kept() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    // As many pages as there are: what SQLite does when the disk has no more.
    let pages: i64 =
        store.connection.lock().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    store
        .connection
        .lock()
        .query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        .unwrap();
    let queue = Queue::new(store);
    let mut large = draft(1);
    large.spec.brief = "x".repeat(200_000);
    let error = queue.add(&large).unwrap_err();
    assert!(matches!(error, QueueError::Store(StoreError::Full)), "{error}");
    assert!(error.is_transient() && error.hint().is_some());
    assert!(matches!(queue.task(id(1)), Err(QueueError::NotFound(_))));
}

#[test]
fn writer_that_never_ends_is_not_waited_for_forever() {
    let (_directory, path) = place();
    let store = open(&path).unwrap();
    store.connection.lock().busy_timeout(Duration::from_millis(50)).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = Queue::new(store).add(&draft(1)).unwrap_err();
    assert!(matches!(error, QueueError::Store(StoreError::Busy)), "{error}");
}

#[test]
fn record_that_was_saved_by_somebody_else_is_not_overwritten() {
    let clock = TestClock::new();
    let store = SqliteStore::in_memory(Box::new(clock.clone())).unwrap();
    let queue = Queue::new(store);
    queue.add(&draft(1)).unwrap();
    clock.advance(1);
    let saved: Result<(), StoreError> = queue.store().write(|transaction| {
        let old = crate::Transaction::load(transaction, id(1))?.unwrap();
        crate::Transaction::save(transaction, &old)?;
        crate::Transaction::save(transaction, &old)
    });
    assert!(matches!(saved, Err(StoreError::Changed)));
}

/// With 10 000 tasks queued, 99 of 100 claims take at most 10 ms. Most of that is the disk's, so a plain transaction
/// that writes one row is measured in turns with them. Debug builds are slower, and machines of CI are shared: there
/// the limit is for the median.
#[test]
fn claims_among_ten_thousand_tasks_are_quick() {
    const TASKS: u128 = 10_000;
    const CLAIMS: u128 = if cfg!(debug_assertions) { 200 } else { 1_000 };
    let (directory, path) = place();
    let queue = queue(&path);
    fill(&path, TASKS);
    let plain = Connection::open(directory.path().join("plain.db")).unwrap();
    plain.pragma_update(None, "journal_mode", "wal").unwrap();
    plain
        .execute_batch("PRAGMA synchronous = full; CREATE TABLE n (n); INSERT INTO n VALUES (0)")
        .unwrap();
    let (mut claims, mut commits) = (Vec::new(), Vec::new());
    for number in 1..=CLAIMS {
        let begun = Instant::now();
        let holder = queue.claim(&claim(number)).unwrap().unwrap().holder;
        claims.push(begun.elapsed());
        finish(&queue, &holder);
        let begun = Instant::now();
        plain.execute("UPDATE n SET n = n + 1", []).unwrap();
        commits.push(begun.elapsed());
    }
    let [claims, commits] = [claims, commits].map(|mut times| {
        times.sort_unstable();
        (times[times.len() / 2], times[times.len() * 99 / 100])
    });
    println!("claim among {TASKS}: median {:?}, 99th percentile {:?}", claims.0, claims.1);
    println!("plain transaction: median {:?}, 99th percentile {:?}", commits.0, commits.1);
    assert!(claims.0 < Duration::from_millis(10).max(3 * commits.0), "median {:?}", claims.0);
    // The plan, not the clock, says that a claim does not look at all of them.
    let plan = "EXPLAIN QUERY PLAN SELECT id FROM task WHERE status = 'queued' \
         ORDER BY priority DESC, queued_at, added_at, id LIMIT 1";
    let connection = Connection::open(&path).unwrap();
    let plan: String = connection.query_row(plan, [], |row| row.get("detail")).unwrap();
    assert!(plan.contains("USING COVERING INDEX task_queued"), "{plan}");
}

/// Adds tasks in one transaction.
fn fill(path: &Path, tasks: u128) {
    let queue = Queue::new(SqliteStore::open_file(path, Box::new(TestClock::new())).unwrap());
    queue.add(&draft(0)).unwrap();
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("BEGIN").unwrap();
    for number in 1..tasks {
        for (table, key) in [("task", "id"), ("spec", "task")] {
            let columns: Vec<String> = connection
                .prepare(&format!("SELECT * FROM {table} LIMIT 0"))
                .unwrap()
                .column_names()
                .map(|name| if name == key { format!("'{}'", id(number)) } else { name.to_owned() })
                .collect();
            let copy = format!(
                "INSERT INTO {table} SELECT {} FROM {table} WHERE {key} = '{}'",
                columns.join(", "),
                id(0)
            );
            connection.execute(&copy, []).unwrap();
        }
    }
    connection.execute_batch("COMMIT").unwrap();
}

fn finish(queue: &Queue<SqliteStore>, holder: &Holder) {
    queue.heartbeat(holder, None).unwrap();
    let completion = Completion { output: "{}".to_owned(), usage: Usage::default() };
    queue.complete(holder, &completion).unwrap();
}
