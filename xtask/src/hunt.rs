//! `cargo xtask hunt`: property tests with seeds that nobody has tried yet.
//!
//! CI runs fixed seeds, so that no landing depends on luck. This task looks for new cases. A case
//! that it finds belongs into the test's list of seeds.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::Outcome;
use crate::cargo;

/// Packages with tests that use proptest.
const PACKAGES: &[&str] = &[
    "pinfold-egress",
    "pinfold-git",
    "pinfold-image",
    "pinfold-policy",
    "pinfold-protect",
    "pinfold-provision",
    "pinfold-session",
    "pinfold-snapshot",
    "pinfold-tasks",
    "pinfold-terminal",
    "pinfold-wire",
];
/// Cases of each property in a round; proptest's default is 256.
const CASES: &str = "2000";
/// Random policies in a round.
const VERDICTS: &str = "300";

/// Runs rounds of property tests, each with another seed, until the time is over.
///
/// # Errors
/// Returns the variables that repeat the round if a test fails.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let minutes: f64 = match words {
        [] => 10.0,
        ["--minutes", minutes] => minutes.parse()?,
        _ => return Err("usage: cargo xtask hunt [--minutes N]".into()),
    };
    let (begun, most) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let mut seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros().to_string();
    let mut rounds = 0;
    while rounds == 0 || begun.elapsed() < most {
        round(&seed)?;
        rounds += 1;
        seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros().to_string();
    }
    println!("{rounds} rounds, nothing found");
    Ok(())
}

fn round(seed: &str) -> Outcome {
    println!("=== seed {seed}");
    let mut properties = cargo::tests();
    properties.args(PACKAGES.iter().flat_map(|package| ["--package", package]));
    properties.args(["--lib", "--test", "layer", "--test", "saved", "--test", "recipe"]);
    properties.env("PROPTEST_RNG_SEED", seed).env("PROPTEST_CASES", CASES);
    cargo::finish(&mut properties).map_err(|error| {
        format!("{error}; repeat with PROPTEST_RNG_SEED={seed} PROPTEST_CASES={CASES}")
    })?;
    let mut verdicts = cargo::tests();
    verdicts.args(["--package", "pinfold-session", "--test", "verdicts"]);
    verdicts.env("PINFOLD_VERDICTS_SEED", seed).env("PINFOLD_VERDICTS_CASES", VERDICTS);
    cargo::finish(&mut verdicts)
}
