//! A simulation of workers that share a queue over a bad network: seeded, with a clock of its own, against the real
//! state machine and the real store.
//!
//! Small ones run in CI. `cargo xtask simulate` runs large ones with new seeds, and says how to repeat one that fails.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a simulation fails by panicking")]

mod check;
mod cluster;
mod events;
mod ledger;
mod network;
mod plan;
mod scheduler;
mod server;
mod worker;
mod world;

use pinfold_host::directories::Places;
use pinfold_tasks::{Clock, SqliteStore};
use pinfold_tasks_postgres::{Address, AnyStore, PostgresStore};
use pinfold_testkit::Postgres;

use plan::Plan;
use world::World;

/// What a simulation of the command line is: `tasks workers seed`.
const CHOICE: &str = "PINFOLD_SIMULATION";

/// Opens a store in memory.
fn embedded(clock: Box<dyn Clock>) -> AnyStore {
    AnyStore::Local(SqliteStore::in_memory(clock).unwrap())
}

fn run(plan: &Plan) -> u64 {
    run_with(plan, embedded)
}

fn run_with(plan: &Plan, open: impl FnOnce(Box<dyn Clock>) -> AnyStore) -> u64 {
    let mut world = World::new(plan, open);
    world.run();
    check::all(&world);
    world.trace()
}

#[test]
fn history_is_the_same_with_every_store() {
    let Some(server) = Postgres::start("history_is_the_same_with_every_store") else { return };
    for plan in [Plan::hostile(60, 8, 1), Plan::chaotic(60, 8, 2)] {
        let shared = |clock| {
            let url = server.url(&server.database());
            let address = Address::parse(&url, &Places::find().unwrap()).unwrap();
            let store = PostgresStore::open(address).unwrap().with_clock(clock);
            AnyStore::Shared(Box::new(store), &[])
        };
        assert_eq!(run(&plan), run_with(&plan, shared));
    }
}

#[test]
fn no_task_is_lost_and_no_attempt_accepted_twice() {
    for seed in 1..=3 {
        run(&Plan::hostile(200, 12, seed));
    }
}

/// A task that becomes free is claimed at once: each moment in which two sandboxes could run is used.
#[test]
fn idle_workers_never_work_on_one_task_at_the_same_time() {
    for seed in 1..=3 {
        run(&Plan::hostile(60, 60, seed));
    }
}

#[test]
fn late_results_and_jumps_of_the_clock_accept_no_attempt_twice() {
    for seed in 1..=3 {
        run(&Plan::chaotic(120, 40, seed));
    }
}

/// The scheduler loses and repeats requests, forgets jobs, and learns late that nodes are gone; nodes are cut off, killed and have
/// clocks of their own; the store is slow or away.
#[test]
fn jobs_of_a_cluster_lose_no_task_and_no_attempt_is_accepted_twice() {
    for seed in 1..=3 {
        run(&Plan::hostile(40, 8, seed).on_a_cluster());
    }
    run(&Plan::chaotic(30, 8, 1).on_a_cluster());
}

#[test]
fn cluster_without_faults_takes_one_job_for_each_task() {
    let mut world = World::new(&Plan::calm(30, 8, 1).on_a_cluster(), embedded);
    world.run();
    check::all(&world);
    check::first_attempts_count(&world);
    assert_eq!(world.cluster.as_ref().unwrap().placed(), 30);
}

#[test]
fn same_seed_gives_the_same_history() {
    let plan = Plan::hostile(60, 6, 7);
    assert_eq!(run(&plan), run(&plan));
    assert_ne!(run(&plan), run(&Plan { seed: 8, ..plan }));
}

#[test]
fn without_faults_each_good_task_takes_one_attempt() {
    let mut world = World::new(&Plan::calm(100, 10, 1), embedded);
    world.run();
    check::all(&world);
    check::first_attempts_count(&world);
}

/// As large as the command line says: for `cargo xtask simulate`.
#[test]
#[ignore = "large: cargo xtask simulate"]
fn large() {
    let choice = std::env::var(CHOICE).unwrap_or_else(|_| "10000 500 1".to_owned());
    let numbers: Vec<u64> = choice.split(' ').map(|number| number.parse().unwrap()).collect();
    let [tasks, workers, seed] = numbers[..] else { panic!("{CHOICE}: expected three numbers") };
    let plan = if seed % 4 == 0 { Plan::chaotic } else { Plan::hostile };
    let plan = plan(tasks as usize, workers as usize, seed);
    // Every second one is of a cluster.
    let plan = if seed % 2 == 1 { plan.on_a_cluster() } else { plan };
    let mut world = World::new(&plan, embedded);
    world.run();
    check::all(&world);
    println!("{}", world.summary());
}
