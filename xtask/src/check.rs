//! `cargo xtask check`: what a contributor runs after each edit.
//!
//! Formatting of everything, the documents, clippy, and the unit tests of the packages that changed. Clippy gets all
//! packages, as in CI: cargo checks those that changed and all that use them, and dependencies keep their features.
//! End-to-end tests are `cargo xtask e2e`.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::Outcome;
use crate::cargo::{self, command, output};
use crate::workspace::Workspace;

/// Checks the packages that are named, or those that changed.
///
/// # Errors
/// Returns the first check that fails. What it printed says why.
pub(crate) fn run(words: &[&str]) -> Outcome {
    let begun = Instant::now();
    let (since, named) = match words {
        ["--since", revision, named @ ..] => (Some(*revision), named),
        named => (None, named),
    };
    let workspace = Workspace::load()?;
    if let Some(unknown) = named.iter().find(|name| !workspace.has(name)) {
        return Err(format!("no package is called `{unknown}`").into());
    }
    let changed: BTreeSet<String> = if named.is_empty() {
        let files = changed_files(workspace.root(), since)?;
        workspace.owners(files.iter().map(PathBuf::as_path))
    } else {
        named.iter().map(|name| (*name).to_owned()).collect()
    };

    step("format");
    let formatted = cargo::run(&["fmt", "--all", "--check"], &[]);
    formatted.map_err(|error| format!("{error}; `cargo fmt --all` formats the code"))?;
    crate::crates::run(&["--check"])?;
    crate::links::run()?;
    crate::words::run(&[])?;
    if changed.is_empty() {
        println!("no package changed");
        return Ok(());
    }
    step("clippy");
    let what = ["--workspace", "--all-targets", "--all-features"];
    let clippy = [&["clippy", "--quiet", "--locked"], &what[..]].concat();
    cargo::run(&clippy, &["--", "-D", "warnings"])?;
    step(&format!("unit tests: {}", list(&changed)));
    cargo::finish(cargo::tests().args(["--locked", "--lib", "--bins"]).args(packages(&changed)))?;
    println!("checked in {:.0} s", begun.elapsed().as_secs_f64());
    if changed.contains("pinfold") {
        println!("end-to-end tests: `cargo xtask e2e` lists their areas");
    }
    Ok(())
}

fn step(name: &str) {
    println!("=== {name}");
}

fn list(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

fn packages(names: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    names.iter().flat_map(|name| ["--package", name.as_str()])
}

/// Returns the files that differ from a revision, and those that git does not track yet.
/// Without a revision, from where the branch left its upstream, or from the last commit if it has none.
fn changed_files(root: &Path, since: Option<&str>) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let git = |words: &[&str]| output(command("git").current_dir(root).args(words));
    let base = match since {
        Some(revision) => revision.to_owned(),
        None => git(&["merge-base", "HEAD", "@{upstream}"]).unwrap_or_else(|_| "HEAD".to_owned()),
    };
    let differing = git(&["diff", "--name-only", "-z", base.trim(), "--"])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    let names = differing.split('\0').chain(untracked.split('\0'));
    Ok(names.filter(|name| !name.is_empty()).map(PathBuf::from).collect())
}
