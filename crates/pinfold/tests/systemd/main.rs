//! The boundary `systemd`: users, the runner and units, with systemd as process 1 in namespaces of a test's own.
#![expect(clippy::unwrap_used, reason = "a test that cannot be prepared has failed")]

mod configured;
mod ends;
mod hostile;
mod limits;
mod listens;
mod nix;
mod requests;
mod runs;
mod set_id;
mod setup;
mod steps;

use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::systemd::{PINFOLD, Systemd};

/// A policy in which alice has one root, and bob another.
const POLICY: &str = r#"{
    "user": "pi-agent",
    "stateDir": "/var/lib/pi-agent",
    "program": "/opt/pinfold",
    "hostUsers": {
        "alice": { "projectRoots": ["~/work"] },
        "bob": { "user": "pi-bob", "projectRoots": ["~/work", "/srv/bob"] }
    }
}"#;

/// A system with a project of alice's.
fn system(test: &str) -> Option<Systemd> {
    let system = Systemd::boot(test, POLICY)?;
    system.project("alice", "/home/alice/work/proj");
    Some(system)
}

/// The shell line that runs another one in a sandbox of the project.
fn run(options: &str, line: &str) -> String {
    format!("cd ~/work/proj && exec {PINFOLD} run --boundary systemd {options} -- sh -c '{line}'")
}

/// A session of alice's that runs until it is ended.
fn waiting(system: &Systemd, options: &str) -> Child {
    let line = run(options, "touch runs; exec sleep 1000");
    let mut session = system.as_user("alice");
    let mut session = session.args(["sh", "-c", &line]).stderr(Stdio::piped()).spawn().unwrap();
    let runs = system.path("/home/alice/work/proj/runs");
    until("it runs", || runs.exists() || session.try_wait().unwrap().is_some());
    if !runs.exists() {
        panic!("{}", failure(&session.wait_with_output().unwrap()));
    }
    session
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Both streams of a command that is to fail.
fn failure(output: &Output) -> String {
    assert!(!output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}

/// Waits until no process of the service user and no unit of pinfold's is there.
fn nothing_is_left(system: &Systemd) {
    until("processes end", || system.agents().is_empty());
    until("units are gone", || system.units().is_empty());
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
