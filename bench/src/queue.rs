//! The queue of tasks in both stores, against plain transactions of the same databases.

use std::path::Path;
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use pinfold_host::directories::Places;
use pinfold_tasks::{
    Claim, Completion, Draft, Holder, Lease, Queue, QueueError, SqliteStore, Store, SystemClock,
    TaskId, TaskSpec, Token, Usage,
};
use pinfold_tasks_postgres::{Address, PostgresStore};
use pinfold_testkit::Postgres;

use super::sample::{Contender, in_turns, print};
use super::start::base;
use super::{Effort, Outcome, command};

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Tasks of one round.
const ROUND: usize = 20;
/// Workers that claim at once.
const WORKERS: usize = 32;

/// A claim with its first heartbeat and the result, as a worker's store sends them, with the same lock. It claims from the same tables.
const PLAIN: &str = include_str!("queue.sql");

pub(super) fn run(effort: Effort) -> Outcome {
    let rounds = (effort.starts / 5).max(4);
    let queued = if effort.starts < 20 { 500 } else { 10_000 };
    sqlite(rounds, queued)?;
    postgres(rounds, queued)
}

fn add<S: Store>(queue: &Queue<S>, tasks: usize) -> Outcome {
    for _ in 0..tasks {
        let spec = TaskSpec::new("t", "b");
        queue.add(&Draft { id: TaskId::generate()?, spec, expires_after: None })?;
    }
    Ok(())
}

/// Claims a task, and returns how long it took.
fn claim<S: Store>(queue: &Queue<S>) -> Result<(Holder, Duration), Failed> {
    let token = Token::generate()?;
    let claim = Claim { token, worker: "bench".to_owned(), ttl: Lease::TTL };
    let begun = Instant::now();
    let claimed = patiently(|| queue.claim(&claim))?.ok_or("the queue is empty")?;
    Ok((claimed.holder, begun.elapsed()))
}

fn finish<S: Store>(queue: &Queue<S>, holder: &Holder) -> Result<(), Failed> {
    patiently(|| queue.heartbeat(holder, None))?;
    let completion = Completion { output: "{}".to_owned(), usage: Usage::default() };
    patiently(|| queue.complete(holder, &completion))?;
    Ok(())
}

/// Repeats what may succeed a moment later, as workers do.
fn patiently<T>(mut ask: impl FnMut() -> Result<T, QueueError>) -> Result<T, QueueError> {
    loop {
        match ask() {
            Err(error) if error.is_transient() => {}
            done => return done,
        }
    }
}

fn whole<S: Store>(queue: &Queue<S>) -> Outcome {
    for _ in 0..ROUND {
        let (holder, _) = claim(queue).map_err(|error| error.to_string())?;
        finish(queue, &holder).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Prints how long claims take while so many tasks are queued.
fn claims<S: Store>(name: &str, queue: &Queue<S>, queued: usize) -> Outcome {
    let mut times = Vec::new();
    for _ in 0..(queued / 10).min(1_000) {
        let (holder, took) = claim(queue).map_err(|error| error.to_string())?;
        times.push(took);
        finish(queue, &holder).map_err(|error| error.to_string())?;
    }
    println!("  {name}: a claim among {queued}: {}", percentiles(&mut times));
    Ok(())
}

pub(super) fn percentiles(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |hundredths: usize| {
        let time = times.get(times.len() * hundredths / 100).copied().unwrap_or_default();
        format!("{:.2} ms", time.as_secs_f64() * 1e3)
    };
    format!("median {}, 99th percentile {}", at(50), at(99))
}

/// Has many workers, each with a store of its own, work on one queue.
fn workers<S: Store>(name: &str, open: impl Fn() -> Result<Queue<S>, Failed> + Sync) -> Outcome {
    let barrier = Barrier::new(WORKERS);
    let work = || -> Result<(Vec<Duration>, Duration), Failed> {
        let queue = open()?;
        barrier.wait();
        let (begun, mut times) = (Instant::now(), Vec::new());
        for _ in 0..ROUND {
            let (holder, took) = claim(&queue)?;
            times.push(took);
            finish(&queue, &holder)?;
        }
        Ok((times, begun.elapsed()))
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join()).collect()
    });
    let (mut times, mut longest) = (Vec::new(), Duration::ZERO);
    for worker in done {
        let worker = worker.map_err(|_| "a worker panicked")?;
        let (its, took) = worker.map_err(|error| error.to_string())?;
        times.extend(its);
        longest = longest.max(took);
    }
    let rate = times.len() as f64 / longest.as_secs_f64();
    println!(
        "  {name}: {WORKERS} workers: {rate:.0} tasks a second; a claim: {}",
        percentiles(&mut times)
    );
    Ok(())
}

fn sqlite(rounds: usize, queued: usize) -> Outcome {
    let directory = tempfile::Builder::new().prefix("bench").tempdir_in(base())?;
    let path = directory.path().join("queue.db");
    let open = || Ok(Queue::new(SqliteStore::open_file(&path, Box::new(SystemClock))?));
    let queue = open().map_err(|error: Failed| error.to_string())?;
    add(&queue, queued + (rounds + 1) * ROUND + WORKERS * ROUND)?;
    let plain = rusqlite::Connection::open(directory.path().join("plain.db"))?;
    plain.execute_batch("PRAGMA journal_mode=wal; PRAGMA synchronous=full; CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")?;
    let bare = move || -> Outcome {
        for _ in 0..3 * ROUND {
            plain.execute("INSERT INTO t (text) VALUES ('x')", [])?;
        }
        Ok(())
    };
    println!("\n  {ROUND} tasks claimed, begun and completed, against as many plain transactions");
    claims("SQLite", &queue, queued)?;
    workers("SQLite", open)?;
    let mut contenders =
        [Contender::of("SQLite", bare), Contender::of("queue", move || whole(&queue))];
    in_turns(&mut contenders, rounds)?;
    print(&contenders, "SQLite");
    Ok(())
}

fn postgres(rounds: usize, queued: usize) -> Outcome {
    // Commits go to the disk, as in a server that is not a test's.
    let Some(server) = Postgres::start_with("the queue in PostgreSQL", None, &["fsync=on"]) else {
        return Ok(());
    };
    let database = server.database();
    let url = server.url(&database);
    let places = Places::find()?;
    let open = || {
        let address = Address::parse(&url, &places)?;
        Ok(Queue::new(PostgresStore::open(address)?))
    };
    let queue = open().map_err(|error: Failed| error.to_string())?;
    add(&queue, queued + 2 * (rounds + 1) * ROUND + 2 * WORKERS * ROUND)?;
    claims("PostgreSQL", &queue, queued)?;
    workers("PostgreSQL", open)?;
    let script = server.path("plain.sql");
    std::fs::write(&script, PLAIN)?;
    let rate = plain(&server, &database, &script, WORKERS, ROUND)?;
    println!("  PostgreSQL: {WORKERS} plain clients: {rate:.0} tasks a second");
    // Rates, since pgbench is started for each round.
    let (mut bare, mut own) = (Vec::new(), Vec::new());
    for _ in 0..=rounds {
        bare.push(plain(&server, &database, &script, 1, ROUND)?);
        let begun = Instant::now();
        whole(&queue)?;
        own.push(ROUND as f64 / begun.elapsed().as_secs_f64());
    }
    let [bare, own] = [bare, own].map(|mut rates| {
        rates.sort_unstable_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    let ratio = own / bare;
    println!(
        "  PostgreSQL: a plain client: {bare:.0} tasks a second, the queue: {own:.0}: {ratio:.2} of it"
    );
    Ok(())
}

/// Has pgbench do the same with so many clients, and returns how many tasks they do in a second.
fn plain(
    server: &Postgres,
    database: &str,
    script: &Path,
    clients: usize,
    each: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let mut pgbench: Command = command(server.program("pgbench"));
    pgbench.args(["-n", "-M", "prepared", "-U", "pinfold", "-h"]).arg(server.path(""));
    pgbench.args(["-c", &clients.to_string(), "-t", &each.to_string(), "-f"]).arg(script);
    let output = pgbench.arg(database).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let said = String::from_utf8(output.stdout)?;
    let rate =
        said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    Ok(rate.ok_or("pgbench names no rate")?)
}
