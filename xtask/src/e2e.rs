//! `cargo xtask e2e`: the end-to-end tests of one area.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::cargo;
use crate::workspace::Workspace;

/// Where the areas are: each directory with a `main.rs` is a test binary of the package `pinfold`.
const AREAS: &str = "crates/pinfold/tests";

/// Runs the areas that are named, or prints their names.
///
/// # Errors
/// Returns an error if an area does not exist or a test fails.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let (words, filters) = match words.iter().position(|word| *word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let (engine, named): (Option<&str>, Vec<&str>) = match words {
        ["--engine", engine, named @ ..] => (Some(*engine), named.to_vec()),
        named => (None, named.to_vec()),
    };
    let areas = areas(Workspace::load()?.root())?;
    if named.is_empty() {
        println!("{}", areas.join("\n"));
        return Ok(());
    }
    if named.contains(&"systemd") {
        // It is no program of the package whose tests these are.
        let words = ["build", "--workspace", "--all-features", "--bin", "pinfold-runner"];
        cargo::run(&words, &[])?;
    }
    let mut tests = cargo::tests();
    // All packages, as `scripts/test` builds them: with fewer, dependencies have other features.
    tests.arg("--workspace");
    for name in named {
        if !areas.iter().any(|area| area == name) {
            return Err(
                format!("no area is called `{name}`; there are: {}", areas.join(" ")).into()
            );
        }
        tests.args(["--test", name]);
    }
    if let Some(engine) = engine {
        tests.env("PINFOLD_TEST_ENGINE", engine);
    }
    cargo::finish(tests.args(filters))
}

fn areas(root: &Path) -> std::io::Result<Vec<String>> {
    let mut areas = Vec::new();
    for entry in fs::read_dir(root.join(AREAS))? {
        let entry = entry?;
        if entry.path().join("main.rs").exists() {
            areas.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    areas.sort();
    Ok(areas)
}
