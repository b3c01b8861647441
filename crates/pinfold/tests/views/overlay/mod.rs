//! A copy-on-write view of the workspace: what a session changed there, and what comes of it.

mod attacks;
mod conflicts;
mod faults;
mod git;
mod kinds;
mod moves;
mod newcomers;
mod power;
mod refreshed;
mod showing;

use std::process::Output;

use pinfold_testkit::Stage;

/// What a test looks at: everything in a tree but git's directories, with kind, mode, target
/// and content.
const LISTING: &str = "find . -name .git -prune -o -mindepth 1 -printf '%P|%y|%m|%l\\n' | sort; \
                       find . -name .git -prune -o -type f -perm /400 -exec cksum {} + | sort -k3";

/// Runs a script in a view of the workspace.
fn session(stage: &Stage, script: &str) -> Output {
    stage.run_shell(&["--workspace", "overlay"], script)
}

/// The same, which must succeed; gives its output.
fn work(stage: &Stage, script: &str) -> String {
    let output = session(stage, &format!("set -e\n{script}"));
    assert!(output.status.success(), "{}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a script on the host, as the user, which must succeed.
fn host(stage: &Stage, script: &str) -> String {
    let output = stage.command("/bin/sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {}", errors(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs pinfold, and gives its output with its errors if it succeeds.
fn pinfold(stage: &Stage, args: &[&str]) -> Result<(String, String), String> {
    let output = stage.pinfold(args).output().unwrap();
    let stderr = errors(&output);
    if output.status.success() {
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr))
    } else {
        Err(stderr)
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The names of the sessions with something to review.
fn sessions(stage: &Stage) -> Vec<String> {
    let entries = std::fs::read_dir(stage.state().join("review")).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
}
