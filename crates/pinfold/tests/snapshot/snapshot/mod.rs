//! Systems that sessions run on: bases, what set-up commands make of them, and what goes wrong.

mod bases;
mod disk;
mod faults;
mod host;
mod hostile;
mod images;
mod keeping;
mod setup;
mod user;

use std::path::PathBuf;
use std::process::Output;

use pinfold_testkit::Stage;

fn build(stage: &Stage) -> Output {
    stage.pinfold(&["snapshot", "build"]).output().unwrap()
}

/// What a line of shell says in a session, which must succeed.
fn session(stage: &Stage, script: &str) -> String {
    said(&stage.run_shell(&[], script))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a call that must fail says.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    stderr(output)
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn cache(stage: &Stage, shelf: &str) -> PathBuf {
    stage.path("home/.cache/pinfold").join(shelf)
}

/// What a shelf of the cache holds, except locks and the names of images.
fn kept(stage: &Stage, shelf: &str) -> Vec<String> {
    let entries = std::fs::read_dir(cache(stage, shelf)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let mut names: Vec<String> =
        names.filter(|name| !name.ends_with(".lock") && name != "names").collect();
    names.sort();
    names
}
