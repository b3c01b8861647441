//! Changing a live session from outside, by its own user.

use std::fs;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_testkit::{Stage, boundary, patience, people};

fn said(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A session that lives until its input ends.
fn live(stage: &Stage, rules: &[&str]) -> Child {
    let mut run = stage.pinfold(&["run"]);
    run.args(rules).args(["--", "sh", "-c", "touch began; read line"]);
    let child = run.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let started = Instant::now();
    while !stage.path("ws/began").exists() {
        let most = patience(Duration::from_secs(20));
        assert!(started.elapsed() < most, "the session does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(stage.path("ws/began")).unwrap();
    child.unwrap()
}

fn end(mut session: Child) {
    drop(session.stdin.take());
    session.wait().unwrap();
}

fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn rules_come_and_go_and_nothing_is_left() {
    for user in people() {
        let stage = Stage::new(user);
        let session = live(&stage, &["--allow-host", "a.example.com"]);
        let change = |words: &[&str]| stage.pinfold(words).output().unwrap();
        let allowed = change(&["allow", "B.example.com.:22"]);
        let lines = String::from_utf8_lossy(&allowed.stdout).into_owned();
        assert!(lines.contains("b.example.com:22 by pinfold allow"), "{}", said(&allowed));
        assert!(lines.contains("a.example.com by --allow-host"), "{}", said(&allowed));
        let forbidden = change(&["forbid", "a.example.com"]);
        assert!(!said(&forbidden).contains("a.example.com"), "{}", said(&forbidden));
        let unknown = change(&["forbid", "c.example.com"]);
        assert!(said(&unknown).contains("no rule c.example.com"), "{}", said(&unknown));
        // Only a start opens what listens on this machine.
        let own = change(&["allow", "host.pinfold:9"]);
        assert!(!own.status.success(), "{}", said(&own));
        assert!(said(&own).contains("--allow-internal-host host.pinfold:9"), "{}", said(&own));
        let other = change(&["allow", "c.example.com", "--session", "nobody"]);
        assert!(said(&other).contains("no live session nobody"), "{}", said(&other));
        let audit = change(&["audit", "--json"]);
        assert!(said(&audit).contains("\"policy-change\""), "{}", said(&audit));
        end(session);
        assert_eq!(entries(&stage.state().join("private")), [""; 0], "uid {}", user.uid);
        assert_eq!(entries(&stage.state().join("sessions")), ["lock"], "uid {}", user.uid);
        let late = change(&["allow", "c.example.com"]);
        assert!(!late.status.success() && said(&late).contains("no live session"));
    }
}

#[test]
fn of_two_sessions_one_has_to_be_named() {
    let stage = Stage::new(people()[0]);
    let sessions = [(); 2].map(|()| live(&stage, &["--allow-host", "a.example.com"]));
    let unclear = stage.pinfold(&["allow", "b.example.com"]).output().unwrap();
    assert!(said(&unclear).contains("name one of these"), "{}", said(&unclear));
    let names = entries(&stage.state().join("private"));
    let named = stage.pinfold(&["allow", "b.example.com", "--session", &names[0]]).output();
    assert!(named.unwrap().status.success());
    sessions.into_iter().for_each(end);
}

#[test]
fn a_sandbox_cannot_change_its_own_rules() {
    for user in people() {
        let stage = Stage::new(user);
        let state = stage.state().join("private");
        let script = format!("ls {0} {0}/* 2>&1; ls /run/pinfold", state.display());
        let output = stage.run_shell(&["--allow-host", "a.example.com"], &script);
        assert!(!said(&output).contains("control"), "{}", said(&output));
    }
}

#[test]
fn program_next_to_a_command_is_not_taken_for_it() {
    let stage = Stage::new(people()[0]);
    let start = |words: &[&str]| {
        let run = stage.pinfold(&[&["run", "--detach"], words].concat()).output().unwrap();
        String::from_utf8(run.stdout).unwrap().trim().to_owned()
    };
    for (words, command) in [(&["--idle"][..], ""), (&["--", "sleep", "1000"], "sleep 1000")] {
        let session = start(words);
        assert!(stage.pinfold(&["exec", &session, "--", "true"]).status().unwrap().success());
        let listed = stage.pinfold(&["ps", "--json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed[0]["command"], command, "{listed}");
        assert_eq!(listed[0]["handled_by"][0], boundary(), "{listed}");
        assert!(stage.pinfold(&["stop", &session]).status().unwrap().success());
    }
}
