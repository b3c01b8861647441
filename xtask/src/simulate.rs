//! `cargo xtask simulate`: workers that share a queue over a bad network, with seeds that nobody has tried yet.
//!
//! CI simulates a few small ones with fixed seeds (`crates/pinfold-tasks/tests/simulation`).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::cargo;

const USAGE: &str =
    "usage: cargo xtask simulate [--minutes N] [--tasks N] [--workers N] [--seed N]";

struct Options {
    minutes: f64,
    tasks: u64,
    workers: u64,
    seed: u64,
}

/// Runs simulations, each with the next seed, until one fails or the time is over. At least one is run.
///
/// # Errors
/// Returns the command that repeats the one that failed.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let options = options(words)?;
    let (begun, most) = (Instant::now(), Duration::from_secs_f64(options.minutes * 60.0));
    for count in 0_u64.. {
        if count > 0 && begun.elapsed() >= most {
            println!("{count} simulations from seed {}, nothing found", options.seed);
            break;
        }
        simulate(&options, options.seed.wrapping_add(count))?;
    }
    Ok(())
}

fn simulate(options: &Options, seed: u64) -> Outcome {
    let Options { tasks, workers, .. } = options;
    let mut test = cargo::command("cargo");
    test.args([
        "test",
        "--quiet",
        "--release",
        "--package",
        "pinfold-tasks",
        "--test",
        "simulation",
    ]);
    test.args(["--", "--ignored", "--exact", "large", "--nocapture"]);
    test.env("PINFOLD_SIMULATION", format!("{tasks} {workers} {seed}"));
    cargo::finish(&mut test).map_err(|error| {
        let command = "cargo xtask simulate --minutes 0";
        format!("{error}; repeat with {command} --tasks {tasks} --workers {workers} --seed {seed}")
            .into()
    })
}

fn options(words: &[&str]) -> Result<Options, Box<dyn std::error::Error>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut options = Options { minutes: 10.0, tasks: 10_000, workers: 500, seed: now };
    for pair in words.chunks(2) {
        match pair {
            ["--minutes", minutes] => options.minutes = minutes.parse()?,
            ["--tasks", tasks] => options.tasks = tasks.parse()?,
            ["--workers", workers] => options.workers = workers.parse()?,
            ["--seed", seed] => options.seed = seed.parse()?,
            _ => return Err(USAGE.into()),
        }
    }
    Ok(options)
}
